#ifndef ESPALIER_COMMON_RPC_CLIENT_STREAM_H_
#define ESPALIER_COMMON_RPC_CLIENT_STREAM_H_

#include <deque>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/rpc/read_message.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/status.h"

namespace espalier {

// The client's side of one bidirectional stream: one read and one write are
// outstanding, further requests are queued, nothing blocks. To gRPC messages
// are bytes, and responses are checked before they are parsed
// (read_message.h). Thread-safe. Not reusable: a broken stream is replaced.
// REQUIRES: if started, on_closed has run before destruction.
template <typename Request, typename Response>
class ClientStream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // A peer that leaves this many requests unread hangs.
  static constexpr size_t kMaxQueued = 4096;

  // Callbacks. All run on gRPC threads and must not block.
  struct Events {
    std::function<void(Response)> on_response;  // in order, one at a time
    // No response follows. on_closed follows only if the stream has ended: it
    // stays open after a message that cannot be decoded, and gRPC does not say
    // which of the two it was.
    std::function<void()> on_read_end;
    std::function<void(grpc::Status)> on_closed;  // once, last
  };

  explicit ClientStream(Events events) : events_(std::move(events)) {}

  grpc::ClientContext& context() { return context_; }

  // REQUIRES: bound to a call of a generic stub, with context().
  void Start(const Request& first) {
    // Writes start outside of reactions: the hold delays OnDone until the last
    // read reports the end of the stream.
    this->AddHold();
    this->StartRead(&response_);
    Send(first);
    this->StartCall();
  }

  // Drops the request if the stream has ended, which on_closed reports.
  void Send(const Request& request) {
    grpc::ByteBuffer bytes = WriteMessage(request);
    const grpc::ByteBuffer* first;
    {
      MutexLock lock(&mutex_);
      if (over_) return;
      if (queue_.size() >= kMaxQueued) {
        over_ = true;
        context_.TryCancel();
        return;
      }
      queue_.push_back(std::move(bytes));
      if (queue_.size() > 1) return;
      first = &queue_.front();
      this->AddHold();
    }
    // Unlocked: the write may end on another thread before this returns.
    this->StartWrite(first);
    this->RemoveHold();
  }

  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (ok && Read()) {
      this->StartRead(&response_);
      return;
    }
    {
      MutexLock lock(&mutex_);
      over_ = true;
    }
    events_.on_read_end();
    this->RemoveHold();
  }

  // False: what has arrived is no message that the peer may send.
  bool Read() {
    auto response = ReadAs<Response>(response_, kPeerLimits);
    response_.Clear();
    if (!response.ok()) return false;
    events_.on_response(*std::move(response));
    return true;
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
  grpc::ByteBuffer response_;  // owned by gRPC while a read is outstanding
  Mutex mutex_;
  // The front is being written.
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;  // no more writes
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CLIENT_STREAM_H_
