#ifndef ESPALIER_TESTS_TESTING_FAKE_EXECUTOR_H_
#define ESPALIER_TESTS_TESTING_FAKE_EXECUTOR_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace espalier {

// An Executor whose clock stands still until the test moves it, and whose tasks
// run on the test's thread when the test calls Run or Advance. Post and PostAt
// may be called from any thread; Run and Advance from one.
class FakeExecutor final : public Executor {
 public:
  void Post(Task task) override {
    PostAt(absl::InfinitePast(), std::move(task));
  }

  Timer PostAt(absl::Time when, Task task) override {
    MutexLock lock(&mutex_);
    const Timer timer = {.when = when, .order = next_order_++};
    tasks_.emplace(timer, std::move(task));
    return timer;
  }

  void Cancel(const Timer& timer) override {
    std::map<Timer, Task>::node_type dropped;  // destroyed outside the lock
    MutexLock lock(&mutex_);
    dropped = tasks_.extract(timer);
  }

  absl::Time Now() const override {
    MutexLock lock(&mutex_);
    return now_;
  }

  // Runs one task that is due; false if there is none.
  bool RunOne() {
    std::optional<Task> task = TakeDue(Now());
    if (!task) return false;
    std::move (*task)();
    return true;
  }

  // Runs due tasks, and those that become due by them, without moving the
  // clock.
  void RunUntilIdle() {
    while (RunOne()) {
    }
  }

  // Moves the clock to `when`, running each task at the time it falls due.
  void AdvanceTo(absl::Time when) {
    RunUntilIdle();
    while (std::optional<Task> task = TakeDue(when)) {
      std::move (*task)();
      RunUntilIdle();
    }
    MutexLock lock(&mutex_);
    now_ = std::max(now_, when);
  }

  void AdvanceBy(absl::Duration duration) { AdvanceTo(Now() + duration); }

  // Moves the clock and runs no task: within a task, the time that the task
  // takes.
  void MoveClock(absl::Duration duration) {
    MutexLock lock(&mutex_);
    now_ += duration;
  }

  // Returns the number of waiting tasks, due or not.
  int64_t num_pending() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(tasks_.size());
  }

 private:
  // Takes the first task due by `limit` and moves the clock to its time.
  std::optional<Task> TakeDue(absl::Time limit) {
    MutexLock lock(&mutex_);
    const auto first = tasks_.begin();
    if (first == tasks_.end() || first->first.when > limit) {
      return std::nullopt;
    }
    now_ = std::max(now_, first->first.when);
    Task task = std::move(first->second);
    tasks_.erase(first);
    return task;
  }

  mutable Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) =
      absl::FromUnixSeconds(1'000'000'000);
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  // The tasks by due time, first posted first among equals.
  std::map<Timer, Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_FAKE_EXECUTOR_H_
