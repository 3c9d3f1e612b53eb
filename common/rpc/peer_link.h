#ifndef ESPALIER_COMMON_RPC_PEER_LINK_H_
#define ESPALIER_COMMON_RPC_PEER_LINK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/secret_number.h"
#include "common/base/serial_executor.h"
#include "common/base/token_bucket.h"
#include "common/obs/log.h"
#include "common/obs/metrics.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/convert.h"
#include "common/rpc/handshake.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/peer_status.h"
#include "common/rpc/status_convert.h"
#include "common/rpc/wire.h"
#include "grpcpp/generic/generic_stub.h"

namespace espalier {

// Keeps a stream to one drafter or verifier open: dials, exchanges hellos,
// matches answers to requests by request_id, and dials again when the stream
// breaks, after a jittered pause that grows. Each stream has its own epoch,
// sampled here, which replaces the coordinator's in the keys that are sent. So
// no peer can name another peer's sequences, and a new stream finds none of an
// old stream's. Thread-safe. Its own thread dials and destroys streams, because
// gRPC's callbacks must do neither; it sleeps while nothing is due.
template <typename Wire>
class PeerLink {
 public:
  using Request = typename Wire::Request;
  using Response = typename Wire::Response;
  using Info = typename Wire::Info;
  // Callback for the answer and the parts that preceded it.
  using Reply = absl::AnyInvocable<void(absl::StatusOr<Response>,
                                        std::vector<Response> parts) &&>;
  // Callback for each part as it arrives. Parts are then not kept for Reply.
  using OnPart = absl::AnyInvocable<void(Response)>;

  // Returns OK if a peer with this hello is to be used. FAILED_PRECONDITION has
  // the reason to refuse it; UNAVAILABLE: dial again soon. Called under the
  // link's lock.
  using Accept = std::function<absl::Status(const Info&)>;

  explicit PeerLink(
      PeerOptions options,
      Accept accept = [](const Info&) { return absl::OkStatus(); })
      : options_(std::move(options)),
        accept_(std::move(accept)),
        reconnects_(AddCounter(
            options_.registry,
            {.name = "espalier_stream_reconnects_total",
             .help = "Streams to a peer that were opened again after a loss.",
             .labels = {{"peer", options_.name}}})),
        executor_(absl::StrCat("peer:", options_.name)) {
    executor_.Post([this] { Dial(); });
  }

  // Fails pending calls with UNAVAILABLE and waits for their callbacks. Must
  // not run on a gRPC thread, so not in a Reply.
  ~PeerLink() {
    auto retired = [this] {
      mutex_.AssertHeld();
      return stream_ == nullptr;
    };
    MutexLock lock(&mutex_);
    closing_ = true;
    if (stream_) stream_->Cancel();
    mutex_.Await(retired);
  }

  // Sends `parts`, then `request`, with a new request_id. `request` must have a
  // sequence update. `reply` runs on a gRPC thread and must not block; if the
  // peer is not ready, it gets UNAVAILABLE at once. `on_part` also runs on a
  // gRPC thread and must not block; its calls precede `reply`, one at a time.
  void Call(Request request, Reply reply, std::vector<Request> parts = {},
            OnPart on_part = nullptr) {
    {
      MutexLock lock(&mutex_);
      if (status_.state == PeerState::kReady && !closing_) {
        const uint64_t id = next_id_++;
        v1::SessionKey& key = Wire::MutableKey(request);
        key.set_epoch(epoch_);
        Expected expected = {.sequence = key.session_id(),
                             .reply = std::move(reply)};
        if (on_part) {
          expected.on_part = std::make_shared<OnPart>(std::move(on_part));
        }
        pending_.emplace(id, std::move(expected));
        for (Request& part : parts) {
          part.set_request_id(id);
          stream_->Send(part);
        }
        request.set_request_id(id);
        stream_->Send(request);
        return;
      }
    }
    std::move(reply)(Unavailable(), {});
  }

  // Lets the peer drop the sequence, and fails its unanswered calls with
  // CANCELLED, so that a peer that never answers occupies no memory here. Sends
  // nothing if the peer is not ready: sequences end with their stream.
  void EndSequence(SequenceId sequence) {
    std::vector<Reply> unanswered;
    {
      MutexLock lock(&mutex_);
      for (auto entry = pending_.begin(); entry != pending_.end();) {
        const auto current = entry++;
        if (current->second.sequence != sequence.number) continue;
        unanswered.push_back(std::move(current->second.reply));
        pending_.erase(current);
      }
      if (status_.state == PeerState::kReady && !closing_) {
        Request request;
        *request.mutable_end_sequence() = ToProto(
            SequenceId{.coordinator_epoch = epoch_, .number = sequence.number});
        stream_->Send(request);
      }
    }
    for (Reply& reply : unanswered) {
      std::move(reply)(absl::CancelledError("the sequence was ended"), {});
    }
  }

  PeerStatus status() const {
    MutexLock lock(&mutex_);
    return status_;
  }

  // From the peer's last hello; nullopt until it was ready once.
  std::optional<Info> info() const {
    MutexLock lock(&mutex_);
    return info_;
  }

  // Changes the info, if there is any. The next hello replaces it.
  void UpdateInfo(absl::FunctionRef<void(Info&)> update) {
    MutexLock lock(&mutex_);
    if (info_) update(*info_);
  }

  // Blocks until the peer is in `state`; false if the deadline passes first.
  bool AwaitState(PeerState state, absl::Time deadline) const {
    auto reached = [&] {
      mutex_.AssertHeld();
      return status_.state == state;
    };
    MutexLock lock(&mutex_);
    return mutex_.AwaitUntil(reached, deadline);
  }

 private:
  using Stream = ClientStream<Request, Response>;
  struct Expected {
    uint64_t sequence;
    Reply reply;
    std::shared_ptr<OnPart> on_part = {};  // null: parts are kept
    std::vector<Response> parts = {};      // those that have arrived
  };
  using Pending = absl::flat_hash_map<uint64_t, Expected>;

  // Longest time from the end of reading to the stream's status.
  static constexpr absl::Duration kLastWords = absl::Seconds(1);

  absl::Status Unavailable() const {
    const PeerStatus now = status();
    return absl::UnavailableError(
        absl::StrCat(options_.name, " is not connected",
                     now.reason.empty() ? "" : ": ", now.reason));
  }

  // Runs on the executor, as do Retire and CancelUnlessReady.
  void Dial() {
    MutexLock lock(&mutex_);
    if (closing_) return;
    auto channel = NewPeerChannel(
        options_.address, {.keepalive = options_.keepalive,
                           .keepalive_timeout = options_.keepalive_timeout,
                           .tls = options_.tls});
    stream_ = std::make_unique<Stream>(typename Stream::Events{
        .on_response = [this](Response r) { OnResponse(std::move(r)); },
        .on_read_end = [this] { OnReadEnd(); },
        .on_closed = [this](const grpc::Status& s) { OnClosed(s); }});
    epoch_ = SecretNumber();
    Request hello;
    hello.set_request_id(next_id_++);
    *hello.mutable_hello() = MakeCoordinatorHello(options_.model, epoch_);
    if (options_.token) {
      options_.token->version().token.ShowOn(stream_->context());
    }
    grpc::GenericStub(channel).PrepareBidiStreamingCall(
        &stream_->context(), Wire::kMethod, {}, stream_.get());
    stream_->Start(hello);
    executor_.PostAt(executor_.Now() + options_.hello_timeout,
                     [this, dial = ++dials_] { CancelUnlessReady(dial); });
  }

  void CancelUnlessReady(uint64_t dial) {
    MutexLock lock(&mutex_);
    if (stream_ && dial == dials_ && status_.state != PeerState::kReady) {
      given_up_ = {.reason = "it does not answer"};
      stream_->Cancel();
    }
  }

  // Runs on a gRPC thread. The stream's status follows, unless the peer has
  // sent a message that cannot be decoded and keeps the stream open.
  void OnReadEnd() {
    MutexLock lock(&mutex_);
    executor_.PostAt(executor_.Now() + kLastWords,
                     [this, dial = dials_] { CancelUnreadable(dial); });
  }

  void CancelUnreadable(uint64_t dial) {
    MutexLock lock(&mutex_);
    if (stream_ == nullptr || dial != dials_) return;
    given_up_ = {.reason = "it sent a message that cannot be decoded"};
    stream_->Cancel();
  }

  // Runs on gRPC threads, one call at a time, as does OnClosed.
  void OnResponse(Response response) {
    Expected expected;
    std::shared_ptr<OnPart> on_part;
    {
      MutexLock lock(&mutex_);
      if (status_.state != PeerState::kReady) {
        Greet(response);
        return;
      }
      if (response.draining()) status_.draining = true;
      auto found = pending_.find(response.request_id());
      if (found == pending_.end()) return;  // unknown, or its sequence ended
      if (!Wire::IsPart(response)) {
        expected = std::move(found->second);
        pending_.erase(found);
      } else if (found->second.on_part == nullptr) {
        found->second.parts.push_back(std::move(response));
        return;
      } else {
        on_part = found->second.on_part;
      }
    }
    if (on_part != nullptr) {
      (*on_part)(std::move(response));
    } else if (response.has_failure()) {
      std::move(expected.reply)(FromFailure(response.failure()), {});
    } else {
      std::move(expected.reply)(std::move(response), std::move(expected.parts));
    }
  }

  void Greet(const Response& response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::StatusOr<Info> info =
        response.has_hello()
            ? CheckPeer(response.hello(), options_.model)
            : absl::FailedPreconditionError("its first message is no hello");
    const absl::Status accepted = info.ok() ? accept_(*info) : info.status();
    if (!accepted.ok()) {
      given_up_ = {.state = absl::IsUnavailable(accepted)
                                ? PeerState::kConnecting
                                : PeerState::kRefused,
                   .reason = std::string(accepted.message())};
      stream_->Cancel();
      return;
    }
    info_ = *std::move(info);
    status_ = {.state = PeerState::kReady};
    ready_since_ = executor_.Now();
    if (was_ready_) reconnects_.Increment();
    was_ready_ = true;
    if (!MayLog()) return;
    LogInfo(
        absl::StrCat("connected to ", options_.name, " at ", options_.address));
  }

  void OnClosed(const grpc::Status& status) {
    Pending lost;
    {
      MutexLock lock(&mutex_);
      lost.swap(pending_);
      PeerStatus after = StatusAfterLoss(status);
      const bool was_stable =
          status_.state == PeerState::kReady &&
          executor_.Now() - ready_since_ >= options_.stable_after;
      if (was_stable) failures_ = 0;
      const bool is_news =
          after.state != status_.state || after.reason != status_.reason;
      if (is_news && MayLog()) {
        LogLoss(after);
      }
      given_up_.reset();
      status_ = std::move(after);
    }
    for (auto& [id, expected] : lost) {
      std::move(expected.reply)(Unavailable(), {});
    }
    executor_.Post([this] { Retire(); });  // last: it may destroy this
  }

  // Returns true if another line about this peer is due: it can cause any
  // number.
  bool MayLog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return log_.Take(executor_.Now());
  }

  // A peer that was never ready is not lost: it may have to wait for another.
  void LogLoss(const PeerStatus& after) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string peer =
        absl::StrCat(options_.name, " at ", options_.address);
    if (after.state == PeerState::kRefused) {
      LogWarning(absl::StrCat(peer, " refused: ", after.reason));
    } else if (given_up_ && !was_ready_) {
      LogInfo(absl::StrCat(peer, " has to wait: ", after.reason));
    } else {
      LogWarning(absl::StrCat(
          peer, was_ready_ ? " lost: " : " not reached: ", after.reason));
    }
  }

  PeerStatus StatusAfterLoss(const grpc::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (given_up_) return *given_up_;
    PeerStatus after = {.reason = PeerText(status.error_message())};
    if (after.reason.empty()) after.reason = "the peer ended the stream";
    // UNIMPLEMENTED: the server lacks the service.
    if (status_.state != PeerState::kReady &&
        (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
         status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
         status.error_code() == grpc::StatusCode::UNIMPLEMENTED)) {
      after.state = PeerState::kRefused;
    }
    return after;
  }

  // Destroys the dead stream and its channel, and schedules the next Dial.
  void Retire() {
    std::unique_ptr<Stream> dead;
    MutexLock lock(&mutex_);
    dead = std::move(stream_);
    if (closing_) return;
    executor_.PostAt(executor_.Now() + NextPause(), [this] { Dial(); });
  }

  absl::Duration NextPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::Duration pause = options_.refused_backoff;
    if (status_.state != PeerState::kRefused) {
      pause = options_.min_backoff;
      for (int i = 0; i < failures_ && pause < options_.max_backoff; ++i) {
        pause *= 2;
      }
      pause = std::min(pause, options_.max_backoff);
      ++failures_;
    }
    return pause * absl::Uniform(random_, 0.8, 1.2);
  }

  const PeerOptions options_;
  const Accept accept_;
  prometheus::Counter& reconnects_;

  mutable Mutex mutex_;
  PeerStatus status_ ABSL_GUARDED_BY(mutex_);
  std::optional<Info> info_ ABSL_GUARDED_BY(mutex_);
  // The stream of the last Dial; null between Retire and the next Dial.
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // of stream_
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t dials_ ABSL_GUARDED_BY(mutex_) = 0;
  bool was_ready_ ABSL_GUARDED_BY(mutex_) = false;
  // Set if this side cancelled the current stream: the status after its end.
  std::optional<PeerStatus> given_up_ ABSL_GUARDED_BY(mutex_);
  absl::Time ready_since_ ABSL_GUARDED_BY(mutex_);  // the latest time
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;        // since it was last stable
  TokenBucket log_ ABSL_GUARDED_BY(mutex_){20, 0.1};
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::BitGen random_ ABSL_GUARDED_BY(mutex_);

  SerialExecutor executor_;  // destroyed first: its tasks use all the others
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_LINK_H_
