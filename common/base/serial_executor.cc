#include "common/base/serial_executor.h"

#include <pthread.h>

#include <utility>

#include "common/base/check.h"

namespace espalier {
namespace {

// Most tasks that Dispatch runs after its own, so that its caller goes on.
constexpr int kMaxFollowing = 8;

}  // namespace

SerialExecutor::SerialExecutor(std::string name) : thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

SerialExecutor::~SerialExecutor() {
  ESPALIER_CHECK(std::this_thread::get_id() != thread_.get_id());
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
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
  return timer;
}

bool SerialExecutor::AnyDue() const {
  return !tasks_.empty() && tasks_.begin()->first.when <= Now();
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
      Sleep();
    }
  }
}

void SerialExecutor::Sleep() {
  const absl::Time wake =
      tasks_.empty() ? absl::InfiniteFuture() : tasks_.begin()->first.when;
  mutex_.AwaitUntil(
      [&] {
        mutex_.AssertHeld();
        return !running_ && (stopping_ || (!tasks_.empty() &&
                                           tasks_.begin()->first.when < wake));
      },
      wake);
}

}  // namespace espalier
