#include "common/base/serial_executor.h"

#include <pthread.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/check.h"

namespace espalier {

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

bool SerialExecutor::Later(const Entry& a, const Entry& b) {
  return std::tie(a.when, a.order) > std::tie(b.when, b.order);
}

void SerialExecutor::Post(Task task) {
  PostAt(absl::InfinitePast(), std::move(task));
}

void SerialExecutor::PostAt(absl::Time when, Task task) {
  MutexLock lock(&mutex_);
  Push(when, std::move(task));
}

void SerialExecutor::Dispatch(Task task) {
  MutexLock lock(&mutex_);
  if (running_ || stopping_ || AnyDue()) {
    Push(absl::InfinitePast(), std::move(task));
  } else {
    RunTask(std::move(task));
  }
}

void SerialExecutor::Push(absl::Time when, Task task) {
  heap_.push_back({when, next_order_++, std::move(task)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool SerialExecutor::AnyDue() const {
  return !heap_.empty() && heap_.front().when <= Now();
}

void SerialExecutor::RunTask(Task task) {
  running_ = true;
  mutex_.Unlock();
  std::move(task)();
  task = nullptr;  // what it holds dies outside the lock
  mutex_.Lock();
  running_ = false;
}

void SerialExecutor::Run() {
  MutexLock lock(&mutex_);
  while (true) {
    if (running_) {
      mutex_.Await([&] { return !running_; });
    } else if (AnyDue()) {
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      Task task = std::move(heap_.back().task);
      heap_.pop_back();
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
      heap_.empty() ? absl::InfiniteFuture() : heap_.front().when;
  mutex_.AwaitUntil(
      [&] {
        return !running_ &&
               (stopping_ || (!heap_.empty() && heap_.front().when < wake));
      },
      wake);
}

}  // namespace espalier
