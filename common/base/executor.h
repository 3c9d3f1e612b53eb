#ifndef ESPALIER_COMMON_BASE_EXECUTOR_H_
#define ESPALIER_COMMON_BASE_EXECUTOR_H_

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
  // The same, or runs it on the caller's thread where nothing else runs or is
  // due, which saves waking another. Not under a lock that a task may take.
  virtual void Dispatch(Task task) { Post(std::move(task)); }
  virtual void PostAt(absl::Time when, Task task) = 0;
  virtual absl::Time Now() const = 0;  // the clock that PostAt goes by
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_EXECUTOR_H_
