#ifndef ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_
#define ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace espalier {

// An Executor with a thread of its own, which sleeps while nothing is due and
// while a task runs on the thread of a Dispatch.
class SerialExecutor final : public Executor {
 public:
  // `name` is what a debugger and top(1) show for the thread (15 characters).
  explicit SerialExecutor(std::string name);
  // Runs what is due, drops what is not, joins. Must not run on the thread.
  ~SerialExecutor() override;

  void Post(Task task) override;
  void Dispatch(Task task) override;
  void PostAt(absl::Time when, Task task) override;
  absl::Time Now() const override { return absl::Now(); }

 private:
  struct Entry {
    absl::Time when;
    uint64_t order;  // first posted first among equals
    Task task;
  };
  static bool Later(const Entry& a, const Entry& b);

  void Run();
  // One task, unlocked.
  void RunTask(Task task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Push(absl::Time when, Task task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AnyDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until no task runs and the first is due, another comes first, or it is time
  // to stop.
  void Sleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<Entry> heap_ ABSL_GUARDED_BY(mutex_);  // earliest on top
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // a task, on any thread
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_
