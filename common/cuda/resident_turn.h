#ifndef ESPALIER_COMMON_CUDA_RESIDENT_TURN_H_
#define ESPALIER_COMMON_CUDA_RESIDENT_TURN_H_

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "common/base/mutex.h"

namespace espalier::cuda {

// Has the queues of one device run kernels that stay one after another. Two of
// them beside each other, each with a part of its blocks on the device, would
// wait for ever. Thread-safe.
class ResidentTurn {
 public:
  class Member {
   public:
    virtual ~Member() = default;
    // Has all that is queued here from now on wait for all that is queued in
    // `other`.
    virtual void WaitFor(Member& other) = 0;
  };

  // Calls `queue`, which queues kernels that stay, when these wait for those of
  // other members. The member must leave before it ends.
  void Take(Member& member, absl::FunctionRef<void()> queue) {
    const MutexLock lock(&mutex_);
    if (last_ != nullptr && last_ != &member) member.WaitFor(*last_);
    last_ = &member;
    queue();
  }
  // Calls `act` while no member waits for another: queues may be in a state in
  // which nothing can wait for them.
  void Hold(absl::FunctionRef<void()> act) {
    const MutexLock lock(&mutex_);
    act();
  }
  // The member's kernels have ended.
  void Leave(const Member& member) {
    const MutexLock lock(&mutex_);
    if (last_ == &member) last_ = nullptr;
  }

 private:
  Mutex mutex_;
  Member* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_RESIDENT_TURN_H_
