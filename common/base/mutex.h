#ifndef ESPALIER_COMMON_BASE_MUTEX_H_
#define ESPALIER_COMMON_BASE_MUTEX_H_

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace espalier {

// A mutex with conditional waits. Unlock wakes the waiters whose condition
// holds now, so that no signal can be forgotten and no thread wakes in vain.
// The interface is that of Abseil's Mutex, the implementation the standard
// library's: ThreadSanitizer knows pthread's locks, but cannot see into the
// system's Abseil, which is built without it. The thread that locked it last
// may destroy it, even while the previous one is still inside Unlock.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }

  void Unlock() ABSL_UNLOCK_FUNCTION() {
    const Wakes wakes = DueWakes();
    mutex_.unlock();  // from here on, `this` may be destroyed
    for (const auto& wake : wakes) wake->notify_one();
  }

  // Tells the analysis of thread safety that the lock is held here: a condition
  // of Await cannot say so in its type.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

  // Blocks, with the lock released meanwhile, until `condition()` is true. Any
  // thread may evaluate it, under the lock. It must depend on nothing except
  // what the lock guards.
  template <typename Condition>
  void Await(Condition condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    AwaitUntil(condition, absl::InfiniteFuture());
  }

  // Returns whether the condition holds; false if the deadline passed first.
  template <typename Condition>
  bool AwaitUntil(Condition condition, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    if (condition()) return true;
    // This thread may have made the conditions of others true.
    for (const auto& wake : DueWakes()) wake->notify_one();
    const auto wake = std::make_shared<std::condition_variable>();
    const auto waiter =
        waiters_.insert(waiters_.end(), Waiter{condition, wake});
    std::unique_lock<std::mutex> held(mutex_, std::adopt_lock);
    const bool holds =
        wake->wait_until(held, absl::ToChronoTime(deadline), condition);
    held.release();
    waiters_.erase(waiter);
    return holds;
  }

 private:
  // Shared with the thread that is about to notify it.
  using Wake = std::shared_ptr<std::condition_variable>;
  using Wakes = absl::InlinedVector<Wake, 2>;
  struct Waiter {
    absl::FunctionRef<bool()> condition;  // the waiting thread's
    Wake wake;
  };

  Wakes DueWakes() const {
    Wakes wakes;
    for (const Waiter& waiter : waiters_) {
      if (waiter.condition()) wakes.push_back(waiter.wake);
    }
    return wakes;
  }

  std::mutex mutex_;
  std::list<Waiter> waiters_;  // guarded by mutex_
};

// Holds a Mutex for as long as it lives.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(*mutex) {
    mutex_.Lock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_MUTEX_H_
