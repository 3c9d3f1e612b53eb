#include "common/grammar/work_budget.h"

#include "common/base/check.h"

namespace espalier::grammar {

thread_local WorkBudget* current_work_budget = nullptr;

WorkBudget::WorkBudget(int64_t units, const std::atomic<bool>* stop)
    : left_(units), stop_(stop) {
  ESPALIER_CHECK(current_work_budget == nullptr);
  current_work_budget = this;
}

WorkBudget::~WorkBudget() { current_work_budget = nullptr; }

void WorkBudget::Exhaust() {
  left_ = -1;
  throw WorkExhausted();
}

}  // namespace espalier::grammar
