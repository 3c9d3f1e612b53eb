#ifndef ESPALIER_COMMON_CHAT_JINJA_JINJA_BUDGET_H_
#define ESPALIER_COMMON_CHAT_JINJA_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>

namespace espalier {

// What a template may spend. The engine calls the functions below where it
// executes a node, makes a value or copies text.

// Thrown where the budget ends. No std::exception: the engine catches those to
// add its position to them.
struct JinjaLimit {
  const char* reason;
};

// While one exists, its thread may spend `units`, as much processor time as
// kJinjaSeconds, and nest kJinjaDepth nodes. At most one per thread.
class JinjaBudget {
 public:
  explicit JinjaBudget(int64_t units);
  ~JinjaBudget();

  JinjaBudget(const JinjaBudget&) = delete;
  JinjaBudget& operator=(const JinjaBudget&) = delete;
};

// 256 MiB of text, a million values, or four million steps.
inline constexpr int64_t kJinjaUnits = int64_t{4} << 20;
inline constexpr int64_t kJinjaSeconds = 2;
// About 1 KiB of stack each.
inline constexpr int kJinjaDepth = 500;

// All throw JinjaLimit. Without a budget they do nothing.
void SpendJinja(int64_t units);
void SpendJinjaValue();
void SpendJinjaText(size_t bytes);

// A node that is being executed.
class JinjaStep {
 public:
  JinjaStep();
  ~JinjaStep();

  JinjaStep(const JinjaStep&) = delete;
  JinjaStep& operator=(const JinjaStep&) = delete;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_JINJA_JINJA_BUDGET_H_
