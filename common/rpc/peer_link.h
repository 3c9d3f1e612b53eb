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
#include "common/base/serial_executor.h"
#include "common/obs/log.h"
#include "common/obs/metrics.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/handshake.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/peer_status.h"
#include "common/rpc/status_convert.h"
#include "common/rpc/wire.h"

namespace espalier {

// Keeps a stream to one drafter or verifier open, forever: dials, greets, tells
// answers apart by request id, and dials again when the stream breaks, with a
// pause that grows and is jittered. Thread-safe. A thread of its own dials and
// takes streams down, because gRPC's callbacks must do neither; it sleeps while
// nothing is due.
template <typename Wire>
class PeerLink {
 public:
  using Request = typename Wire::Request;
  using Response = typename Wire::Response;
  using Info = typename Wire::Info;
  // The answer, and its parts that came before it.
  using Reply = absl::AnyInvocable<void(absl::StatusOr<Response>,
                                        std::vector<Response> parts) &&>;
  // A part as it comes, which is then not kept for the answer.
  using OnPart = absl::AnyInvocable<void(Response)>;

  // Whether a peer that says this of itself is of use: FAILED_PRECONDITION is
  // the reason to refuse it, UNAVAILABLE to ask it again soon. Called under the
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

  // Fails what is pending with UNAVAILABLE and waits for it. Not for a thread
  // of gRPC, so not for a Reply.
  ~PeerLink() {
    auto retired = [this] { return stream_ == nullptr; };
    MutexLock lock(&mutex_);
    closing_ = true;
    if (stream_) stream_->Cancel();
    mutex_.Await(retired);
  }

  // Sends `parts`, then `request`, under a fresh id. `reply` runs on a gRPC
  // thread and must not block; UNAVAILABLE at once if the peer is not ready.
  // `on_part` likewise, before it and never at the same time.
  void Call(Request request, Reply reply, std::vector<Request> parts = {},
            OnPart on_part = nullptr) {
    {
      MutexLock lock(&mutex_);
      if (status_.state == PeerState::kReady && !closing_) {
        const uint64_t id = next_id_++;
        Expected expected = {.reply = std::move(reply)};
        if (on_part) {
          expected.on_part = std::make_shared<OnPart>(std::move(on_part));
        }
        pending_.emplace(id, std::move(expected));
        for (Request& part : parts) {
          part.set_request_id(id);
          stream_->Send(std::move(part));
        }
        request.set_request_id(id);
        stream_->Send(std::move(request));
        return;
      }
    }
    std::move(reply)(Unavailable(), {});
  }

  // Sends a message that has no answer; dropped if the peer is not ready, since
  // a stream that ended has taken its sequences along.
  void Send(Request request) {
    MutexLock lock(&mutex_);
    if (status_.state == PeerState::kReady && !closing_) {
      stream_->Send(std::move(request));
    }
  }

  PeerStatus status() const {
    MutexLock lock(&mutex_);
    return status_;
  }

  // What the peer last said of itself.
  std::optional<Info> info() const {
    MutexLock lock(&mutex_);
    return info_;
  }

  // Changes that, if it ever said anything, until it says it anew.
  void UpdateInfo(absl::FunctionRef<void(Info&)> update) {
    MutexLock lock(&mutex_);
    if (info_) update(*info_);
  }

  // Blocks until the peer is in `state`; false if the deadline comes first.
  bool AwaitState(PeerState state, absl::Time deadline) const {
    auto reached = [&] { return status_.state == state; };
    MutexLock lock(&mutex_);
    return mutex_.AwaitUntil(reached, deadline);
  }

 private:
  using Stream = ClientStream<Request, Response>;
  struct Expected {
    Reply reply;
    std::shared_ptr<OnPart> on_part;  // null: parts are kept
    std::vector<Response> parts;      // that have arrived
  };
  using Pending = absl::flat_hash_map<uint64_t, Expected>;

  absl::Status Unavailable() const {
    const PeerStatus now = status();
    return absl::UnavailableError(
        absl::StrCat(options_.name, " is not connected",
                     now.reason.empty() ? "" : ": ", now.reason));
  }

  // On the executor, like Retire and CancelUnlessReady.
  void Dial() {
    MutexLock lock(&mutex_);
    if (closing_) return;
    auto channel = NewPeerChannel(options_.address);
    typename Wire::Service::Stub stub(channel);
    stream_ = std::make_unique<Stream>(typename Stream::Events{
        .on_response = [this](Response r) { OnResponse(std::move(r)); },
        .on_closed = [this](const grpc::Status& s) { OnClosed(s); }});
    Request hello;
    hello.set_request_id(next_id_++);
    *hello.mutable_hello() =
        MakeCoordinatorHello(options_.model, options_.epoch);
    Wire::Open(stub, stream_->context(), *stream_);
    stream_->Start(std::move(hello));
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

  // On gRPC threads, one at a time, like OnClosed.
  void OnResponse(Response response) {
    Expected expected;
    std::shared_ptr<OnPart> on_part;
    {
      MutexLock lock(&mutex_);
      if (status_.state != PeerState::kReady) {
        Greet(response);
        return;
      }
      auto found = pending_.find(response.request_id());
      if (found == pending_.end()) return;  // nobody waits for it any more
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
    failures_ = 0;
    status_ = {.state = PeerState::kReady};
    if (was_ready_) reconnects_.Increment();
    was_ready_ = true;
    LogInfo(
        absl::StrCat("connected to ", options_.name, " at ", options_.address));
  }

  void OnClosed(const grpc::Status& status) {
    Pending lost;
    {
      MutexLock lock(&mutex_);
      lost.swap(pending_);
      PeerStatus after = StatusAfterLoss(status);
      given_up_.reset();
      if (after.state != status_.state || after.reason != status_.reason) {
        LogWarning(absl::StrCat(
            options_.name, " at ", options_.address,
            after.state == PeerState::kRefused ? " refused: " : " lost: ",
            after.reason));
      }
      status_ = std::move(after);
    }
    for (auto& [id, expected] : lost) {
      std::move(expected.reply)(Unavailable(), {});
    }
    executor_.Post([this] { Retire(); });  // last: this may be gone after it
  }

  PeerStatus StatusAfterLoss(const grpc::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (given_up_) return *given_up_;
    PeerStatus after = {.reason = status.error_message()};
    if (after.reason.empty()) after.reason = "the peer ended the stream";
    // A server that lacks the service refuses as well.
    if (status_.state != PeerState::kReady &&
        (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
         status.error_code() == grpc::StatusCode::UNIMPLEMENTED)) {
      after.state = PeerState::kRefused;
    }
    return after;
  }

  // Destroys the dead stream with its channel, and plans the next one.
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
  // Of the last Dial; null between Retire and the next one.
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t dials_ ABSL_GUARDED_BY(mutex_) = 0;
  bool was_ready_ ABSL_GUARDED_BY(mutex_) = false;
  // Set if this side cancelled the current stream, to what follows from it.
  std::optional<PeerStatus> given_up_ ABSL_GUARDED_BY(mutex_);
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;  // since it was last ready
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::BitGen random_ ABSL_GUARDED_BY(mutex_);

  SerialExecutor executor_;  // first to go: its tasks use all the rest
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_LINK_H_
