#ifndef ESPALIER_COMMON_RPC_SERVER_STREAMS_H_
#define ESPALIER_COMMON_RPC_SERVER_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "common/rpc/convert.h"
#include "common/rpc/handshake.h"
#include "common/rpc/sequence_owners.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/status_convert.h"
#include "common/spec/messages.h"

namespace espalier {

// All streams of a drafter or verifier service. Does what both have in common:
// the handshake, failures instead of broken streams, ending a stream's
// sequences with it, draining. Thread-safe. Outlives the grpc::Server.
template <typename Wire>
class ServerStreams {
 public:
  using Request = typename Wire::Request;
  using Response = typename Wire::Response;
  class Reply;

  // Of one request; what a peer can make a stream hold is this many messages
  // of gRPC's size.
  static constexpr int64_t kMaxParts = 256;

  struct Handler {
    ModelIdentity model;         // whose coordinators are accepted
    typename Wire::Hello hello;  // the answer to them
    // A message with an update, and its parts that came before it. Runs on
    // gRPC threads; must not block.
    std::function<void(Request, std::vector<Request> parts, Reply)> handle;
    std::function<void(SequenceId)> end_sequence;
  };

  explicit ServerStreams(Handler handler) : handler_(std::move(handler)) {}

  // What the service's method returns to gRPC.
  grpc::ServerBidiReactor<Request, Response>* Open() {
    auto stream = std::make_shared<Stream>(*this);
    {
      MutexLock lock(&mutex_);
      streams_.insert(stream);
    }
    stream->Start();
    return stream.get();
  }

  // Refuses new sequences and closes each stream when its sequences are over.
  // Blocks until all are closed or the deadline passed.
  void Drain(absl::Time deadline) {
    absl::flat_hash_set<std::shared_ptr<Stream>> streams;
    {
      MutexLock lock(&mutex_);
      draining_ = true;
      streams = streams_;
    }
    for (const std::shared_ptr<Stream>& stream : streams) {
      stream->CloseIfDrained();
    }
    streams.clear();
    MutexLock lock(&mutex_);
    mutex_.AwaitUntil([this] { return streams_.empty(); }, deadline);
  }

 private:
  class Stream;

  void Remove(const std::shared_ptr<Stream>& stream) {
    MutexLock lock(&mutex_);
    streams_.erase(stream);
  }

  const Handler handler_;
  SequenceOwners owners_;
  std::atomic<bool> draining_ = false;
  Mutex mutex_;
  absl::flat_hash_set<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

// Answers one request, from any thread, whether or not the stream still
// exists. One that is dropped unanswered answers INTERNAL.
template <typename Wire>
class ServerStreams<Wire>::Reply {
 public:
  Reply(std::shared_ptr<Stream> stream, uint64_t request_id)
      : stream_(std::move(stream)), request_id_(request_id) {}
  Reply(Reply&&) = default;
  Reply& operator=(Reply&&) = delete;
  ~Reply() {
    if (stream_) (*this)(absl::InternalError("the request was dropped"));
  }

  // Sends a part ahead of the answer. REQUIRES: not answered yet.
  void SendPart(Response part) const {
    part.set_request_id(request_id_);
    stream_->SendPart(std::move(part));
  }

  void operator()(absl::StatusOr<Response> response,
                  std::vector<Response> parts = {}) {
    if (!response.ok()) {
      Response failure;
      *failure.mutable_failure() = ToFailure(response.status());
      response = std::move(failure);
    }
    response->set_request_id(request_id_);
    for (Response& part : parts) part.set_request_id(request_id_);
    std::exchange(stream_, nullptr)
        ->Answer(*std::move(response), std::move(parts));
  }

 private:
  std::shared_ptr<Stream> stream_;  // null: answered
  uint64_t request_id_;
};

template <typename Wire>
class ServerStreams<Wire>::Stream final
    : public ServerStream<Request, Response>,
      public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(ServerStreams& host) : host_(host) {}

  void Start() {
    if (host_.draining_) {
      this->Close({grpc::StatusCode::UNAVAILABLE, "draining"});
    } else {
      this->StartReading();
    }
  }

  void CloseIfDrained() {
    if (host_.draining_ && this->unanswered() == 0 &&
        !host_.owners_.OwnsAny(this)) {
      this->Close({grpc::StatusCode::UNAVAILABLE, "draining"});
    }
  }

 private:
  bool OnRequest(Request request) override {
    if (!greeted_) return Greet(request);
    if (request.has_end_sequence()) {
      End(FromProto(request.end_sequence()));
      return false;
    }
    if (Wire::IsPart(request)) {
      AddPart(std::move(request));
      return false;
    }
    std::vector<Request> parts = TakeParts(request.request_id());
    Reply reply(this->shared_from_this(), request.request_id());
    absl::Status status = Admit(request);
    if (!status.ok()) {
      reply(status);
      return true;
    }
    try {
      host_.handler_.handle(std::move(request), std::move(parts),
                            std::move(reply));
    } catch (const std::exception& error) {
      // gRPC would swallow it. The reply has answered on its way out.
      LogError(absl::StrCat("exception in a request: ", error.what()));
    }
    return true;
  }

  // Where there are too many, the last ones are of more use than the first.
  void AddPart(Request part) {
    if (!parts_.empty() && parts_[0].request_id() != part.request_id()) {
      parts_.clear();
    }
    if (static_cast<int64_t>(parts_.size()) >= kMaxParts) parts_.clear();
    parts_.push_back(std::move(part));
  }

  std::vector<Request> TakeParts(uint64_t request_id) {
    std::vector<Request> parts = std::exchange(parts_, {});
    if (!parts.empty() && parts[0].request_id() != request_id) parts.clear();
    return parts;
  }

  bool Greet(const Request& request) {
    absl::Status status =
        request.has_hello()
            ? CheckCoordinator(request.hello(), host_.handler_.model)
            : absl::FailedPreconditionError("the first message is no hello");
    if (!status.ok()) {
      LogWarning(absl::StrCat("refused a coordinator: ", status.message()));
      this->Close(ToGrpcStatus(status));
      return false;
    }
    greeted_ = true;
    epoch_ = request.hello().epoch();
    Response response;
    response.set_request_id(request.request_id());
    *response.mutable_hello() = host_.handler_.hello;
    this->Answer(std::move(response));
    return true;
  }

  // Whether the handler gets to see the request. Claims its sequence.
  absl::Status Admit(const Request& request) {
    if (request.has_hello()) {
      return absl::InvalidArgumentError("a second hello");
    }
    if (request.message_case() == Request::MESSAGE_NOT_SET) {
      return absl::InvalidArgumentError("a message without content");
    }
    const v1::SequenceUpdate* update = Wire::Update(request);
    if (update == nullptr) {
      return absl::UnimplementedError(
          "this version has no use for such messages");
    }
    if (request.request_id() == 0) {
      return absl::InvalidArgumentError("request_id is 0");
    }
    const SequenceId sequence = {.coordinator_epoch = update->key().epoch(),
                                 .number = update->key().session_id()};
    if (sequence.coordinator_epoch != epoch_) {
      return absl::InvalidArgumentError(
          "update.key.epoch is not that of the stream's hello");
    }
    if (host_.draining_ && !host_.owners_.Owns(sequence, this)) {
      return absl::UnavailableError("draining");
    }
    if (!host_.owners_.Claim(sequence, this)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "more than ", SequenceOwners::kMaxSequences, " sequences are open"));
    }
    return absl::OkStatus();
  }

  void End(SequenceId sequence) {
    if (host_.owners_.Release(sequence, this)) {
      host_.handler_.end_sequence(sequence);
    }
  }

  void OnSettled() override { CloseIfDrained(); }

  // Before the peer can open another stream for what it lost with this one.
  void OnEnded() override { EndAll(); }

  void OnFinished() override {
    EndAll();
    host_.Remove(this->shared_from_this());
  }

  void EndAll() {
    for (SequenceId sequence : host_.owners_.ReleaseAll(this)) {
      host_.handler_.end_sequence(sequence);
    }
  }

  ServerStreams& host_;
  // Touched by OnRequest only.
  bool greeted_ = false;
  uint64_t epoch_ = 0;
  std::vector<Request> parts_;  // of the request that follows
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_STREAMS_H_
