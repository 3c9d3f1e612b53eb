#ifndef ESPALIER_COMMON_RPC_SERVER_STREAM_H_
#define ESPALIER_COMMON_RPC_SERVER_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace espalier {

// The server's side of one bidirectional stream: one read and one write are
// outstanding, answers are queued, nothing blocks. To gRPC messages are bytes,
// and requests are checked before they are parsed (read_message.h): one that a
// peer may not send ends its stream with INVALID_ARGUMENT. Reading pauses while
// kMaxUnanswered requests are unanswered, so that a peer cannot pile up work;
// HTTP/2 flow control then stops the peer. Answers may be sent from any thread.
// After the end of the stream they are dropped; ownership is therefore shared:
// the stream owns itself until OnDone, and every pending reply owns it too.
template <typename Request, typename Response>
class ServerStream
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static constexpr int64_t kMaxUnanswered = 1024;

  // Answers one request; `parts` precede the answer. Thread-safe.
  void Answer(const Response& response,
              const std::vector<Response>& parts = {}) {
    std::vector<Outgoing> all;
    for (const Response& part : parts) {
      all.push_back(Outgoing(part, /*part=*/true));
    }
    all.push_back(Outgoing(response, /*part=*/false));
    Send(std::move(all));
  }

  // Sends a part of an answer that will follow. Thread-safe.
  void SendPart(const Response& part) {
    std::vector<Outgoing> all;
    all.push_back(Outgoing(part, /*part=*/true));
    Send(std::move(all));
  }

  // Ends the stream with `status` when the queued answers are written. No
  // further requests are accepted. Thread-safe.
  void Close(grpc::Status status) {
    MutexLock lock(&mutex_);
    if (closing_) return;
    closing_ = std::move(status);
    FinishIfWritten();
  }

  // Bytes of queued answers that are not written yet.
  int64_t unread_bytes() const {
    MutexLock lock(&mutex_);
    return unread_bytes_;
  }

  int64_t unanswered() const {
    MutexLock lock(&mutex_);
    return unanswered_;
  }

 protected:
  // Call once, when the stream can accept requests.
  void StartReading() { this->StartRead(&request_); }

  // Handles one request. Calls are in order, one at a time. Returns whether an
  // Answer will follow. Must not block.
  virtual bool OnRequest(Request request) = 0;
  // Called when a request is settled: its answer was written, or it needed
  // none.
  virtual void OnSettled() = 0;
  // Called when the peer has ended the stream or it broke, before the peer can
  // know that the server noticed. If it broke, OnRequest may run concurrently.
  virtual void OnEnded() = 0;
  // Called once, as the last reaction: no other runs or will run. The stream
  // may drop its ownership of itself.
  virtual void OnFinished() = 0;

 private:
  struct Outgoing {
    Outgoing(const Response& message, bool part)
        : response(WriteMessage(message)),
          bytes(static_cast<int64_t>(response.Length())),
          is_part(part) {}
    grpc::ByteBuffer response;
    int64_t bytes;
    bool is_part;  // a part of an answer that follows
  };

  void Send(std::vector<Outgoing> all) {
    const grpc::ByteBuffer* first;
    {
      MutexLock lock(&mutex_);
      if (closing_) return;
      const bool idle = queue_.empty();
      for (const Outgoing& outgoing : all) unread_bytes_ += outgoing.bytes;
      std::move(all.begin(), all.end(), std::back_inserter(queue_));
      if (!idle) return;
      first = &queue_.front().response;
    }
    // Unlocked: the write may end on another thread before this returns. The
    // stream is not finished until then.
    this->StartWrite(first);
  }

  void OnReadDone(bool ok) final {
    if (!ok) {
      End();
      return;
    }
    auto request = ReadAs<Request>(request_, kPeerLimits);
    request_.Clear();
    if (!request.ok()) {
      Close(ToGrpcStatus(request.status()));
      End();
      return;
    }
    {
      MutexLock lock(&mutex_);
      if (closing_) return;
      ++unanswered_;
    }
    const bool answer_follows = OnRequest(*std::move(request));
    {
      MutexLock lock(&mutex_);
      if (!answer_follows) --unanswered_;
      paused_ = !closing_ && unanswered_ >= kMaxUnanswered;
      if (!paused_ && !closing_) this->StartRead(&request_);
    }
    if (!answer_follows) OnSettled();
  }

  void OnWriteDone(bool ok) final {
    {
      MutexLock lock(&mutex_);
      if (!queue_.front().is_part) --unanswered_;
      unread_bytes_ -= queue_.front().bytes;
      queue_.pop_front();
      if (!ok || ended_) queue_.clear();
      if (queue_.empty()) unread_bytes_ = 0;
      if (!queue_.empty()) this->StartWrite(&queue_.front().response);
      FinishIfWritten();
      if (paused_ && !closing_ && unanswered_ < kMaxUnanswered) {
        paused_ = false;
        this->StartRead(&request_);
      }
    }
    OnSettled();
  }

  // Needed for paused streams, which have no read that would notice the end.
  void OnCancel() final { End(); }

  void OnDone() final { OnFinished(); }

  // The peer ended the stream, or it broke.
  void End() {
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      ended_ = true;
    }
    OnEnded();
    MutexLock lock(&mutex_);
    // gRPC may still be writing the front, so it must stay alive.
    if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());
    if (!closing_) closing_ = grpc::Status::OK;
    FinishIfWritten();
  }

  void FinishIfWritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!closing_ || finished_ || !queue_.empty()) return;
    finished_ = true;
    this->Finish(*closing_);
  }

  mutable Mutex mutex_;
  grpc::ByteBuffer request_;  // owned by gRPC while a read is outstanding
  // The front is being written.
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // in queue_
  int64_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // no read is outstanding
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // If set, no more answers are accepted, and Finish follows the queued ones.
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_STREAM_H_
