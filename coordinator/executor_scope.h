#ifndef ESPALIER_COORDINATOR_EXECUTOR_SCOPE_H_
#define ESPALIER_COORDINATOR_EXECUTOR_SCOPE_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/spec/endpoints.h"

namespace espalier::coordinator {

// Timers and answers that come to nothing once the scope is closed or gone. It
// lets an object hand `this` to peers that may answer long after its death.
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
  void PostAt(absl::Time when, Executor::Task task) const {
    executor_->PostAt(when, Guarded(std::move(task)));
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

  // The same for what a peer may say any number of times before its answer.
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

  // Whatever was posted and has not run never will.
  void Close() { alive_.reset(); }

 private:
  Executor::Task Guarded(Executor::Task task) const {
    return [alive = std::weak_ptr<const bool>(alive_),
            task = std::move(task)]() mutable {
      if (!alive.expired()) std::move(task)();
    };
  }

  Executor* const executor_;
  // Shared with nobody; weak pointers to it tell tasks that the scope is open.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_EXECUTOR_SCOPE_H_
