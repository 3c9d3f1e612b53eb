#ifndef ESPALIER_COMMON_CHAT_JINJA_BUDGET_H_
#define ESPALIER_COMMON_CHAT_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>

namespace espalier::jinja {

// Counts what one rendering may spend: steps, values, characters, processor
// time of the calling thread, and depth. Every method throws Error (error.h)
// where the budget ends. For one thread.
class Budget {
 public:
  // 256 MiB of text, a million values, or four million steps.
  static constexpr int64_t kUnits = int64_t{4} << 20;
  static constexpr int64_t kSeconds = 2;
  // Nodes that are executed within each other; about 1 KiB of stack each.
  static constexpr int kDepth = 1000;

  explicit Budget(int64_t units = kUnits);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void Spend(int64_t units);
  // Work over characters that are looked at, copied or made.
  void SpendCharacters(size_t count);
  void SpendValue();
  void SpendValues(size_t count);

 private:
  friend class Step;

  int64_t left_;
  int64_t next_look_;  // the clock is read when so much is left
  double end_;         // seconds of the thread's processor time
  int depth_ = 0;
};

// A node that is being executed.
class Step {
 public:
  explicit Step(Budget& budget);
  ~Step() { --budget_.depth_; }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  Budget& budget_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_BUDGET_H_
