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
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace espalier {

// One bidirectional stream as its server sees it: one read and one write
// outstanding, answers queued, nothing blocks. Reading pauses while
// kMaxUnanswered requests wait for their answer, so a peer cannot pile up work;
// HTTP/2 flow control tells it. Answers may be sent from any thread, also after
// the end of the stream, when they are dropped: therefore shared ownership (the
// stream itself until OnDone, whoever has an answer to give after that).
template <typename Request, typename Response>
class ServerStream : public grpc::ServerBidiReactor<Request, Response> {
 public:
  static constexpr int64_t kMaxUnanswered = 1024;

  // Answers one request; `parts` go before. Thread-safe.
  void Answer(Response response, std::vector<Response> parts = {}) {
    std::vector<Outgoing> all;
    for (Response& part : parts) {
      all.push_back({.response = std::move(part), .is_part = true});
    }
    all.push_back({.response = std::move(response)});
    Send(std::move(all));
  }

  // Sends a part of an answer that will follow. Thread-safe.
  void SendPart(Response part) {
    std::vector<Outgoing> all;
    all.push_back({.response = std::move(part), .is_part = true});
    Send(std::move(all));
  }

  // Ends the stream with `status` when the queued answers are written; takes
  // no further requests. Thread-safe.
  void Close(grpc::Status status) {
    MutexLock lock(&mutex_);
    if (closing_) return;
    closing_ = std::move(status);
    FinishIfWritten();
  }

  int64_t unanswered() const {
    MutexLock lock(&mutex_);
    return unanswered_;
  }

 protected:
  // Call once, when the stream can take requests.
  void StartReading() { this->StartRead(&request_); }

  // One request, in order, never two at a time. Returns whether an Answer will
  // follow. Must not block.
  virtual bool OnRequest(Request request) = 0;
  // A request is dealt with: its answer is on the way, or none was needed.
  virtual void OnSettled() = 0;
  // The peer has ended the stream, or it broke; the peer does not know yet that
  // we do. Where it broke, OnRequest may run at the same time.
  virtual void OnEnded() = 0;
  // Once, last of all: no other reaction runs or will run. The stream may drop
  // its ownership of itself.
  virtual void OnFinished() = 0;

 private:
  struct Outgoing {
    Response response;
    bool is_part = false;  // of the answer behind it
  };

  void Send(std::vector<Outgoing> all) {
    const Response* first;
    {
      MutexLock lock(&mutex_);
      if (closing_) return;
      const bool idle = queue_.empty();
      std::move(all.begin(), all.end(), std::back_inserter(queue_));
      if (!idle) return;
      first = &queue_.front().response;
    }
    // Unlocked: its end comes on another thread, maybe before it returns. Until
    // then the stream is not finished.
    this->StartWrite(first);
  }

  void OnReadDone(bool ok) final {
    if (!ok) {
      End();
      return;
    }
    {
      MutexLock lock(&mutex_);
      if (closing_) return;
      ++unanswered_;
    }
    const bool answer_follows = OnRequest(std::move(request_));
    request_.Clear();
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
      queue_.pop_front();
      if (!ok || ended_) queue_.clear();
      if (!queue_.empty()) this->StartWrite(&queue_.front().response);
      FinishIfWritten();
      if (paused_ && !closing_ && unanswered_ < kMaxUnanswered) {
        paused_ = false;
        this->StartRead(&request_);
      }
    }
    OnSettled();
  }

  // A paused stream has no read that would notice; this does.
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
    // What gRPC is writing must stay alive.
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
  Request request_;  // gRPC's while a read is outstanding
  // The front is being written.
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // no read is outstanding
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Set: no more answers are taken, Finish follows the queued ones.
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_STREAM_H_
