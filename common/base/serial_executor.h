#ifndef ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_
#define ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/idle_spin.h"
#include "common/base/mutex.h"

namespace espalier {

// An Executor with its own thread, which sleeps while nothing is due, after a
// spin if it is to have one, and while Dispatch runs a task on its caller's
// thread.
class SerialExecutor final : public Executor {
 public:
  // `name` is the thread's name in debuggers and top(1) (15 characters).
  explicit SerialExecutor(std::string name, const IdleSpin::Limits& spin = {});
  // Runs the tasks that are due, drops the others, and joins the thread.
  // REQUIRES: not called on that thread.
  ~SerialExecutor() override;

  void Post(Task task) override;
  void Dispatch(Task task) override;
  Timer PostAt(absl::Time when, Task task) override;
  void Cancel(const Timer& timer) override;
  absl::Time Now() const override { return absl::Now(); }

 private:
  void Run();
  // Runs one task with the lock released.
  void RunTask(Task task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Timer Push(absl::Time when, Task task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AnyDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time FirstDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Spins and sleeps until there may be something to do.
  void AwaitWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks for news with the lock released.
  void Spin(absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until no task runs and the first one is due, another one becomes the
  // first, or the executor stops.
  void Sleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  IdleSpin spin_;  // the thread's
  // Changes, under the lock, with each new task and when the executor stops.
  std::atomic<uint64_t> news_ = 0;
  std::map<Timer, Task> tasks_ ABSL_GUARDED_BY(mutex_);  // earliest first
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // a task runs, on any thread
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all other members exist
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_SERIAL_EXECUTOR_H_
