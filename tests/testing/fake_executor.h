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
// run on the test's thread when it says so. Post and PostAt from any thread;
// the Run and Advance calls from one.
class FakeExecutor final : public Executor {
 public:
  void Post(Task task) override {
    PostAt(absl::InfinitePast(), std::move(task));
  }

  void PostAt(absl::Time when, Task task) override {
    MutexLock lock(&mutex_);
    tasks_.emplace(std::pair(when, next_order_++), std::move(task));
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

  // Runs what is due, and what that makes due, without moving the clock.
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

  // Moves the clock and runs nothing: inside a task, the time that it takes.
  void MoveClock(absl::Duration duration) {
    MutexLock lock(&mutex_);
    now_ += duration;
  }

  // Tasks that wait, due or not.
  int64_t num_pending() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(tasks_.size());
  }

 private:
  // Takes the first task due by `limit` and moves the clock to its time.
  std::optional<Task> TakeDue(absl::Time limit) {
    MutexLock lock(&mutex_);
    const auto first = tasks_.begin();
    if (first == tasks_.end() || first->first.first > limit) {
      return std::nullopt;
    }
    now_ = std::max(now_, first->first.first);
    Task task = std::move(first->second);
    tasks_.erase(first);
    return task;
  }

  mutable Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) =
      absl::FromUnixSeconds(1'000'000'000);
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  // By due time, first posted first among equals.
  std::map<std::pair<absl::Time, uint64_t>, Task> tasks_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_FAKE_EXECUTOR_H_
