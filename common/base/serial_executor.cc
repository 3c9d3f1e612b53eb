#include "common/base/serial_executor.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/spin.h"

namespace espalier {
namespace {

// Most tasks that Dispatch runs after its own, so that its caller goes on.
constexpr int kMaxFollowing = 8;

}  // namespace

SerialExecutor::SerialExecutor(std::string name, const IdleSpin::Limits& spin)
    : spin_(spin), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

SerialExecutor::~SerialExecutor() {
  ESPALIER_CHECK(std::this_thread::get_id() != thread_.get_id());
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    ++news_;
  }
  thread_.join();
}

void SerialExecutor::Post(Task task) {
  PostAt(absl::InfinitePast(), std::move(task));
}

Executor::Timer SerialExecutor::PostAt(absl::Time when, Task task) {
  MutexLock lock(&mutex_);
  return Push(when, std::move(task));
}

void SerialExecutor::Cancel(const Timer& timer) {
  std::map<Timer, Task>::node_type dropped;  // destroyed after unlocking
  MutexLock lock(&mutex_);
  dropped = tasks_.extract(timer);
}

void SerialExecutor::Dispatch(Task task) {
  MutexLock lock(&mutex_);
  if (running_ || stopping_ || AnyDue()) {
    Push(absl::InfinitePast(), std::move(task));
    return;
  }
  RunTask(std::move(task));
  for (int i = 0; i < kMaxFollowing && AnyDue(); ++i) {
    RunTask(std::move(tasks_.extract(tasks_.begin()).mapped()));
  }
}

Executor::Timer SerialExecutor::Push(absl::Time when, Task task) {
  const Timer timer = {.when = when, .order = next_order_++};
  tasks_.emplace(timer, std::move(task));
  ++news_;
  return timer;
}

bool SerialExecutor::AnyDue() const {
  return !tasks_.empty() && tasks_.begin()->first.when <= Now();
}

absl::Time SerialExecutor::FirstDue() const {
  return tasks_.empty() ? absl::InfiniteFuture() : tasks_.begin()->first.when;
}

void SerialExecutor::RunTask(Task task) {
  running_ = true;
  mutex_.Unlock();
  std::move(task)();
  task = nullptr;  // destroy what it holds outside the lock
  mutex_.Lock();
  running_ = false;
}

void SerialExecutor::Run() {
  MutexLock lock(&mutex_);
  while (true) {
    if (running_) {
      mutex_.Await([this] {
        mutex_.AssertHeld();
        return !running_;
      });
    } else if (AnyDue()) {
      Task task = std::move(tasks_.extract(tasks_.begin()).mapped());
      RunTask(std::move(task));
    } else if (stopping_) {
      break;
    } else {
      AwaitWork();
    }
  }
}

void SerialExecutor::AwaitWork() {
  const absl::Time now = Now();
  const absl::Time spin_end = std::min(spin_.Begin(now), FirstDue());
  if (now < spin_end) Spin(spin_end);
  if (!AnyDue() && !stopping_) Sleep();
  spin_.End(Now());
}

void SerialExecutor::Spin(absl::Time until) {
  const uint64_t seen = news_;
  mutex_.Unlock();
  SpinUntil([&] { return news_ != seen; }, [&] { return Now() >= until; });
  mutex_.Lock();
}

void SerialExecutor::Sleep() {
  const absl::Time wake = FirstDue();
  mutex_.AwaitUntil(
      [&] {
        mutex_.AssertHeld();
        return !running_ && (stopping_ || (!tasks_.empty() &&
                                           tasks_.begin()->first.when < wake));
      },
      wake);
}

}  // namespace espalier
