#ifndef ESPALIER_TESTS_COORDINATOR_CONTROL_CHOICE_WITH_BUDGET_H_
#define ESPALIER_TESTS_COORDINATOR_CONTROL_CHOICE_WITH_BUDGET_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "coordinator/control/drafter_choice.h"

namespace espalier::coordinator {

struct Budgets {
  explicit Budgets(size_t num_drafters) : budgets(num_drafters) {}

  std::vector<ProbeBudget*> Borrow() {
    std::vector<ProbeBudget*> borrowed;
    for (ProbeBudget& budget : budgets) borrowed.push_back(&budget);
    return borrowed;
  }
  void Earn(double tokens) {
    for (ProbeBudget& budget : budgets) {
      budget.Earn(tokens, static_cast<int>(budgets.size()));
    }
  }
  void Spend(double tokens) {
    for (ProbeBudget& budget : budgets) budget.Spend(tokens);
  }

  std::vector<ProbeBudget> budgets;
};

// The choice of the only session, with the budgets that its probes use.
struct ChoiceWithBudget : Budgets, DrafterChoice {
  explicit ChoiceWithBudget(std::vector<DrafterValue> prior)
      : Budgets(prior.size()), DrafterChoice(std::move(prior), Borrow()) {}
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_CONTROL_CHOICE_WITH_BUDGET_H_
