#ifndef ESPALIER_COMMON_BASE_MUTEX_H_
#define ESPALIER_COMMON_BASE_MUTEX_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace espalier {

// A lock that one can also wait under until a condition on what it guards
// holds. Whoever unlocks wakes those who wait, so there is nothing to signal
// and nothing to forget. Shaped like Mutex but made of the standard
// library: ThreadSanitizer knows pthread's locks, and cannot look into an
// Abseil that the system built without it. May be destroyed by whoever locked
// it last, even while the one before is still inside Unlock.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }

  void Unlock() ABSL_UNLOCK_FUNCTION() {
    // Before the unlock: after it, this may be gone.
    if (waiting_ > 0) unlocked_.notify_all();
    mutex_.unlock();
  }

  // Blocks, with the lock released meanwhile, until `condition()`, which is
  // evaluated under the lock and depends on nothing but what it guards.
  template <typename Condition>
  void Await(Condition condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    AwaitUntil(condition, absl::InfiniteFuture());
  }

  // Returns whether the condition holds: false if the deadline came first.
  template <typename Condition>
  bool AwaitUntil(Condition condition, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> held(mutex_, std::adopt_lock);
    // For the same reason: this thread may have changed what others wait for.
    if (waiting_ > 0) unlocked_.notify_all();
    ++waiting_;
    const bool holds =
        unlocked_.wait_until(held, absl::ToChronoTime(deadline), condition);
    --waiting_;
    held.release();
    return holds;
  }

 private:
  std::mutex mutex_;
  std::condition_variable unlocked_;
  int64_t waiting_ = 0;  // guarded by mutex_
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
