#ifndef ESPALIER_COMMON_BASE_EXECUTOR_H_
#define ESPALIER_COMMON_BASE_EXECUTOR_H_

#include <compare>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace espalier {

// Runs tasks one at a time, in the order they fall due. State touched only by
// tasks of one executor needs no lock. Thread-safe.
class Executor {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  virtual ~Executor() = default;
  virtual void Post(Task task) = 0;
  // Does the same as Post, but if no other task runs or is due, the task, and
  // what it posts, may run on the caller's thread, which saves waking another.
  // REQUIRES: the caller holds no lock that a task may take.
  virtual void Dispatch(Task task) { Post(std::move(task)); }
  // Identifies a task of PostAt.
  struct Timer {
    absl::Time when = absl::InfinitePast();
    uint64_t order = 0;  // among equal times, the order of posting

    friend auto operator<=>(const Timer& a, const Timer& b) {
      return std::pair(a.when, a.order) <=> std::pair(b.when, b.order);
    }
    friend bool operator==(const Timer&, const Timer&) = default;
  };
  virtual Timer PostAt(absl::Time when, Task task) = 0;
  // Destroys the task if it has not begun; otherwise does nothing.
  virtual void Cancel(const Timer& timer) = 0;
  virtual absl::Time Now() const = 0;  // the clock of PostAt
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_EXECUTOR_H_
