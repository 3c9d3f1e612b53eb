#ifndef ESPALIER_COORDINATOR_CONTROL_TRIAL_BUDGET_H_
#define ESPALIER_COORDINATOR_CONTROL_TRIAL_BUDGET_H_

#include <algorithm>

namespace espalier::coordinator {

// Limits what all trials of drafters lose to 1 token and 1 % of the tokens that
// the sessions emit. Lives on the executor.
class TrialBudget {
 public:
  // The sessions emitted tokens.
  void Earn(double tokens) {
    balance_ = std::min(balance_ + kShare * tokens, kMaxSaved);
  }
  // A trial lost tokens.
  void Spend(double tokens) { balance_ -= tokens; }
  // Returns true if a trial may begin that loses so many tokens for certain.
  // One that loses more leaves a debt to later ones.
  bool Allows(double tokens) const {
    return balance_ >= std::min(tokens, kMaxSaved);
  }

 private:
  static constexpr double kShare = 0.01;
  static constexpr double kMaxSaved = 6;  // tokens

  double balance_ = 1;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_TRIAL_BUDGET_H_
