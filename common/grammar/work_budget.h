// A limit on the work of a grammar's compiler and matcher. What is built of
// xgrammar is a copy whose loops pay for their steps here (xgrammar.cmake), so
// that no grammar keeps a thread busy. C++17, as xgrammar.
#ifndef ESPALIER_COMMON_GRAMMAR_WORK_BUDGET_H_
#define ESPALIER_COMMON_GRAMMAR_WORK_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <exception>

namespace espalier::grammar {

// Thrown where the work is, through the library. What it worked on is broken.
class WorkExhausted : public std::exception {
 public:
  const char* what() const noexcept override { return "too much work"; }
};

// The budget of what this thread does while it lives; at most one at a time.
// Work that no budget covers is free.
class WorkBudget {
 public:
  // A unit is a step of the parser, nearly: 20 to 50 ns. Once `stop` is true,
  // nothing is left; null: never.
  explicit WorkBudget(int64_t units, const std::atomic<bool>* stop = nullptr);
  ~WorkBudget();
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

  // Gives back what was spent.
  void Refill(int64_t units) { left_ = units; }
  int64_t left() const { return left_; }  // negative: it is exhausted

  // Throws WorkExhausted.
  void Spend(int64_t units) {
    left_ -= units;
    if (left_ < 0 ||
        (stop_ != nullptr && stop_->load(std::memory_order_relaxed))) {
      Exhaust();
    }
  }

 private:
  [[noreturn]] void Exhaust();

  int64_t left_;
  const std::atomic<bool>* stop_;
};

// The budget of this thread; null: none.
extern thread_local WorkBudget* current_work_budget;

inline void SpendWork(int64_t units) {
  if (current_work_budget != nullptr) current_work_budget->Spend(units);
}

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_WORK_BUDGET_H_
