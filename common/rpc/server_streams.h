#ifndef ESPALIER_COMMON_RPC_SERVER_STREAMS_H_
#define ESPALIER_COMMON_RPC_SERVER_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/convert.h"
#include "common/rpc/handshake.h"
#include "common/rpc/sequence_owners.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/status_convert.h"
#include "common/speculation/messages.h"

namespace espalier {

// All streams of a drafter or verifier service. Implements what both share: the
// handshake, a Failure for a failed message instead of a broken stream, ending
// a stream's sequences with it, draining. Thread-safe. Outlives the
// grpc::Server; a Reply may outlive it.
template <typename Wire>
class ServerStreams {
 public:
  using Request = typename Wire::Request;
  using Response = typename Wire::Response;
  class Reply;

  // Limits of what peers can make a service hold: parts of a request that does
  // not arrive, per stream and in all, and answers that a peer does not read,
  // per stream. They exceed what a coordinator sends for one request
  // (FeatureBudget's request_bytes).
  static constexpr int64_t kMaxParts = 256;
  static constexpr int64_t kMaxPartBytes = int64_t{96} << 20;
  static constexpr int64_t kMaxAllPartBytes = int64_t{256} << 20;
  static constexpr int64_t kMaxUnreadBytes = int64_t{64} << 20;
  static constexpr size_t kSmallAnswerBytes = 64 << 10;

  struct Handler {
    std::shared_ptr<const AccessGate> gate;  // admits coordinators
    ModelIdentity model;         // coordinators must have the same tokens
    typename Wire::Hello hello;  // the answer to a coordinator's hello
    // Handles a message with an update, and the parts that preceded it. Runs on
    // gRPC threads; must not block.
    std::function<void(Request, std::vector<Request> parts, Reply)> handle;
    std::function<void(SequenceId)> end_sequence;
  };

  explicit ServerStreams(Handler handler)
      : host_(std::make_shared<Host>(std::move(handler))) {}

  // The reactor that the service's method returns to gRPC.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Open(
      const grpc::ServerContextBase& context) {
    auto stream = std::make_shared<Stream>(host_);
    {
      MutexLock lock(&host_->mutex);
      host_->streams.insert(stream);
    }
    stream->Start(host_->handler.gate->Admit(context, {Role::kService}));
    return stream.get();
  }

  // Refuses new sequences and closes each stream when its sequences have ended.
  // Blocks until all streams are closed or the deadline has passed.
  void Drain(absl::Time deadline) {
    absl::flat_hash_set<std::shared_ptr<Stream>> streams;
    {
      MutexLock lock(&host_->mutex);
      host_->draining = true;
      streams = host_->streams;
    }
    for (const std::shared_ptr<Stream>& stream : streams) {
      stream->CloseIfDrained();
    }
    streams.clear();
    MutexLock lock(&host_->mutex);
    host_->mutex.AwaitUntil(
        [this] {
          host_->mutex.AssertHeld();
          return host_->streams.empty();
        },
        deadline);
  }

 private:
  class Stream;

  // Shared by the service, its streams, and the replies that outlive both.
  struct Host {
    explicit Host(Handler given) : handler(std::move(given)) {}

    const Handler handler;
    SequenceOwners owners;
    std::atomic<bool> draining = false;
    std::atomic<int64_t> part_bytes = 0;  // held by all streams
    Mutex mutex;
    absl::flat_hash_set<std::shared_ptr<Stream>> streams ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Host> host_;
};

// Answers one request, from any thread, even after the end of the stream. A
// Reply that is destroyed without an answer answers INTERNAL.
template <typename Wire>
class ServerStreams<Wire>::Reply {
 public:
  // `sequence`: which the request has claimed; nullopt: none.
  Reply(std::shared_ptr<Stream> stream, uint64_t request_id,
        std::optional<SequenceId> sequence)
      : stream_(std::move(stream)),
        request_id_(request_id),
        sequence_(sequence) {}
  Reply(Reply&&) = default;
  Reply& operator=(Reply&&) = delete;
  ~Reply() {
    if (stream_) (*this)(absl::InternalError("the request was dropped"));
  }

  // Sends a part ahead of the answer. REQUIRES: not answered yet.
  void SendPart(Response part) const {
    if (stream_->unread_bytes() > kMaxUnreadBytes) return;
    part.set_request_id(request_id_);
    stream_->SendPart(part);
  }

  void operator()(absl::StatusOr<Response> response,
                  std::vector<Response> parts = {}) {
    if (sequence_) stream_->Settle(*sequence_, response.ok());
    // Bounds the memory of answers for a peer that requests and does not read;
    // it may request again. Small answers are bounded by kMaxUnanswered.
    const bool is_small =
        parts.empty() &&
        (!response.ok() || response->ByteSizeLong() <= kSmallAnswerBytes);
    if (!is_small && stream_->unread_bytes() > kMaxUnreadBytes) {
      response = absl::UnavailableError("answers wait that nobody reads");
      parts.clear();
    }
    if (!response.ok()) {
      Response failure;
      *failure.mutable_failure() = ToFailure(response.status());
      response = std::move(failure);
    }
    response->set_request_id(request_id_);
    response->set_draining(stream_->draining());
    for (Response& part : parts) part.set_request_id(request_id_);
    std::exchange(stream_, nullptr)->Answer(*response, parts);
  }

 private:
  std::shared_ptr<Stream> stream_;  // null: answered
  uint64_t request_id_;
  std::optional<SequenceId> sequence_;
};

template <typename Wire>
class ServerStreams<Wire>::Stream final
    : public ServerStream<Request, Response>,
      public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(std::shared_ptr<Host> host) : host_(std::move(host)) {}

  // `caller`: not OK if it may not use the service.
  void Start(absl::StatusOr<Principal> caller) {
    if (!caller.ok()) {
      Refuse(caller.status());
      return;
    }
    caller_ = *std::move(caller);
    if (host_->draining) {
      this->Close({grpc::StatusCode::UNAVAILABLE, "draining"});
    } else {
      this->StartReading();
    }
  }

  bool draining() const { return host_->draining; }

  // A request about the sequence has ended.
  void Settle(SequenceId sequence, bool success) {
    if (host_->owners.Settle(sequence, this, success)) {
      host_->handler.end_sequence(sequence);
    }
  }

  void CloseIfDrained() {
    if (host_->draining && this->unanswered() == 0 &&
        !host_->owners.OwnsAny(this)) {
      this->Close({grpc::StatusCode::UNAVAILABLE, "draining"});
    }
  }

 private:
  bool OnRequest(Request request) override {
    if (!host_->handler.gate->Holds(caller_)) {
      Refuse(absl::UnauthenticatedError("the credential was revoked"));
      return false;
    }
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
    const absl::StatusOr<SequenceId> sequence = Admit(request);
    Reply reply(this->shared_from_this(), request.request_id(),
                sequence.ok() ? std::optional(*sequence) : std::nullopt);
    if (!sequence.ok()) {
      reply(sequence.status());
      return true;
    }
    try {
      host_->handler.handle(std::move(request), std::move(parts),
                            std::move(reply));
    } catch (const std::exception& error) {
      // gRPC would swallow the exception. The reply's destructor has answered.
      LogError(absl::StrCat("exception in a request: ", error.what()));
    }
    return true;
  }

  void Refuse(const absl::Status& status) {
    LogWarning(absl::StrCat("refused a coordinator: ", status.message()));
    this->Close(ToGrpcStatus(status));
  }

  // If there are too many parts, the earlier ones are dropped: later features
  // are more useful.
  void AddPart(Request part) {
    const auto bytes = static_cast<int64_t>(part.ByteSizeLong());
    if (!parts_.empty() && parts_[0].request_id() != part.request_id()) {
      DropParts();
    }
    if (static_cast<int64_t>(parts_.size()) >= kMaxParts ||
        part_bytes_ + bytes > kMaxPartBytes ||
        host_->part_bytes + bytes > kMaxAllPartBytes) {
      DropParts();
    }
    if (host_->part_bytes + bytes > kMaxAllPartBytes) return;
    part_bytes_ += bytes;
    host_->part_bytes += bytes;
    parts_.push_back(std::move(part));
  }

  void DropParts() { (void)TakeParts(0); }

  std::vector<Request> TakeParts(uint64_t request_id) {
    std::vector<Request> parts = std::exchange(parts_, {});
    host_->part_bytes -= std::exchange(part_bytes_, 0);
    if (!parts.empty() && parts[0].request_id() != request_id) parts.clear();
    return parts;
  }

  bool Greet(const Request& request) {
    absl::Status status =
        request.has_hello()
            ? CheckCoordinator(request.hello(), host_->handler.model)
            : absl::FailedPreconditionError("the first message is no hello");
    if (!status.ok()) {
      Refuse(status);
      return false;
    }
    greeted_ = true;
    epoch_ = request.hello().epoch();
    Response response;
    response.set_request_id(request.request_id());
    *response.mutable_hello() = host_->handler.hello;
    this->Answer(response);
    return true;
  }

  // The sequence of a request that the handler is to get, which is claimed.
  absl::StatusOr<SequenceId> Admit(const Request& request) {
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
    if (host_->draining && !host_->owners.Owns(sequence, this)) {
      return absl::UnavailableError("draining");
    }
    ASSIGN_OR_RETURN(const std::optional<SequenceId> taken,
                     host_->owners.Claim(sequence, this));
    if (taken) host_->handler.end_sequence(*taken);
    return sequence;
  }

  void End(SequenceId sequence) {
    if (host_->owners.Release(sequence, this)) {
      host_->handler.end_sequence(sequence);
    }
  }

  void OnSettled() override { CloseIfDrained(); }

  // Runs before the peer can open another stream for the same sequences.
  void OnEnded() override { EndAll(); }

  void OnFinished() override {
    EndAll();
    DropParts();
    const auto self = this->shared_from_this();  // until the lock is released
    MutexLock lock(&host_->mutex);
    host_->streams.erase(self);
  }

  void EndAll() {
    for (SequenceId sequence : host_->owners.ReleaseAll(this)) {
      host_->handler.end_sequence(sequence);
    }
  }

  const std::shared_ptr<Host> host_;
  Principal caller_;  // set before the first request
  // Used by OnRequest only.
  bool greeted_ = false;
  uint64_t epoch_ = 0;
  std::vector<Request> parts_;  // parts of the request that follows
  int64_t part_bytes_ = 0;      // bytes of parts_
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_STREAMS_H_
