#ifndef ESPALIER_COMMON_RPC_CLIENT_STREAM_H_
#define ESPALIER_COMMON_RPC_CLIENT_STREAM_H_

#include <deque>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/status.h"

namespace espalier {

// One bidirectional stream as its client sees it: one read and one write
// outstanding, requests queued, nothing blocks. Thread-safe. Not reusable: a
// broken stream is replaced. REQUIRES: if started, on_closed has run before
// destruction.
template <typename Request, typename Response>
class ClientStream final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  // More than a peer that reads will ever leave unread: it hangs.
  static constexpr size_t kMaxQueued = 4096;

  // Both run on gRPC threads and must not block.
  struct Events {
    std::function<void(Response)> on_response;    // in order, one at a time
    std::function<void(grpc::Status)> on_closed;  // once, last
  };

  explicit ClientStream(Events events) : events_(std::move(events)) {}

  grpc::ClientContext& context() { return context_; }

  // REQUIRES: bound to a call of the stub, with context().
  void Start(Request first) {
    // Writes start outside of reactions: the hold keeps OnDone away until the
    // last read says that the stream is over.
    this->AddHold();
    this->StartRead(&response_);
    Send(std::move(first));
    this->StartCall();
  }

  // Dropped if the stream is over: on_closed will tell.
  void Send(Request request) {
    const Request* first;
    {
      MutexLock lock(&mutex_);
      if (over_) return;
      if (queue_.size() >= kMaxQueued) {
        over_ = true;
        context_.TryCancel();
        return;
      }
      queue_.push_back(std::move(request));
      if (queue_.size() > 1) return;
      first = &queue_.front();
      this->AddHold();
    }
    // Unlocked: its end comes on another thread, maybe before it returns.
    this->StartWrite(first);
    this->RemoveHold();
  }

  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      events_.on_response(std::move(response_));
      response_.Clear();
      this->StartRead(&response_);
      return;
    }
    {
      MutexLock lock(&mutex_);
      over_ = true;
    }
    this->RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    queue_.pop_front();
    if (!ok) over_ = true;
    if (over_) {
      queue_.clear();
    } else if (!queue_.empty()) {
      this->StartWrite(&queue_.front());
    }
  }

  void OnDone(const grpc::Status& status) override {
    // The event may destroy the stream before it returns.
    auto on_closed = std::move(events_.on_closed);
    on_closed(status);
  }

  Events events_;
  grpc::ClientContext context_;
  Response response_;  // gRPC's while a read is outstanding
  Mutex mutex_;
  // The front is being written.
  std::deque<Request> queue_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;  // no more writes
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CLIENT_STREAM_H_
