#ifndef ESPALIER_COMMON_BASE_NOTIFICATION_H_
#define ESPALIER_COMMON_BASE_NOTIFICATION_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/mutex.h"

namespace espalier {

// A one-time event that threads can wait for. What was done before Notify is
// visible after Wait. A thread that has waited may destroy it at once.
class Notification {
 public:
  // REQUIRES: called at most once.
  void Notify() {
    MutexLock lock(&mutex_);
    ESPALIER_CHECK(!notified_);
    notified_ = true;
  }

  void Wait() const { WaitUntil(absl::InfiniteFuture()); }

  // False if the deadline passed first.
  bool WaitUntil(absl::Time deadline) const {
    MutexLock lock(&mutex_);
    return mutex_.AwaitUntil(
        [this] {
          mutex_.AssertHeld();
          return notified_;
        },
        deadline);
  }

  bool HasBeenNotified() const {
    MutexLock lock(&mutex_);
    return notified_;
  }

 private:
  mutable Mutex mutex_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_NOTIFICATION_H_
