#ifndef ESPALIER_COORDINATOR_PEERS_EXECUTOR_SCOPE_H_
#define ESPALIER_COORDINATOR_PEERS_EXECUTOR_SCOPE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/speculation/endpoints.h"

namespace espalier::coordinator {

// Timers and callbacks that do nothing once the scope is closed or destroyed.
// An object can thus hand `this` to peers that may answer long after its death.
// Post may be called from any thread; the scope is closed and destroyed on the
// executor, or after the executor has stopped.
class ExecutorScope {
 public:
  explicit ExecutorScope(Executor* executor) : executor_(executor) {}
  ExecutorScope(const ExecutorScope&) = delete;
  ExecutorScope& operator=(const ExecutorScope&) = delete;

  void Post(Executor::Task task) const {
    executor_->Post(Guarded(std::move(task)));
  }
  // Call it on the executor. The task is destroyed with the scope, so an ended
  // object holds no memory until its timers would have been due.
  void PostAt(absl::Time when, Executor::Task task) const {
    SetTimer(when, std::move(task));
  }
  // Like PostAt, but can be cancelled by the returned number, which is never 0.
  uint64_t SetTimer(absl::Time when, Executor::Task task) const {
    const uint64_t number = next_timer_++;
    timers_[number] = executor_->PostAt(
        when, Guarded([this, number, task = std::move(task)]() mutable {
          timers_.erase(number);
          std::move(task)();
        }));
    return number;
  }
  // Call it on the executor. Does nothing if the timer has run.
  void CancelTimer(uint64_t number) const {
    const auto found = timers_.find(number);
    if (found == timers_.end()) return;
    executor_->Cancel(found->second);
    timers_.erase(found);
  }

  // The `done` of a call to a peer: runs `then(absl::StatusOr<T>)` on the
  // executor, whatever thread the peer answers on.
  template <typename T, typename Then>
  Done<T> Reply(Then then) const {
    return [executor = executor_, alive = std::weak_ptr<const bool>(alive_),
            then = std::move(then)](absl::StatusOr<T> reply) mutable {
      executor->Dispatch([alive = std::move(alive), then = std::move(then),
                          reply = std::move(reply)]() mutable {
        if (!alive.expired()) then(std::move(reply));
      });
    };
  }

  // Like Reply, for messages that a peer may send any number of times before
  // its answer.
  template <typename T, typename Then>
  absl::AnyInvocable<void(T)> Listen(Then then) const {
    return [executor = executor_, alive = std::weak_ptr<const bool>(alive_),
            then = std::move(then)](T value) {
      executor->Dispatch([alive, then, value = std::move(value)]() mutable {
        if (!alive.expired()) then(std::move(value));
      });
    };
  }

  absl::Time Now() const { return executor_->Now(); }

  // Tasks that were posted and have not run never will.
  void Close() {
    alive_.reset();
    for (const auto& [number, timer] : timers_) executor_->Cancel(timer);
    timers_.clear();
  }

 private:
  Executor::Task Guarded(Executor::Task task) const {
    return [alive = std::weak_ptr<const bool>(alive_),
            task = std::move(task)]() mutable {
      if (!alive.expired()) std::move(task)();
    };
  }

  Executor* const executor_;
  mutable uint64_t next_timer_ = 1;
  mutable absl::flat_hash_map<uint64_t, Executor::Timer> timers_;
  // The only strong pointer; weak pointers to it tell tasks whether the scope
  // is open.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_EXECUTOR_SCOPE_H_
