#include "common/rpc/remote_draft_endpoint.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/convert.h"
#include "common/rpc/feature_chunks.h"
#include "common/rpc/peer_link.h"
#include "common/rpc/wire.h"

namespace espalier {

class RemoteDraftEndpoint::Link : public PeerLink<DraftWire> {
  using PeerLink::PeerLink;
};

namespace {

absl::StatusOr<Proposal> Read(const v1::DraftResponse& response) {
  if (!response.has_proposal()) {
    return absl::DataLossError("the drafter's answer is no proposal");
  }
  auto proposal = FromProto(response.proposal());
  if (!proposal.ok()) {
    return absl::DataLossError(absl::StrCat("malformed answer of the drafter: ",
                                            proposal.status().message()));
  }
  return proposal;
}

// Receives the responses to one request. If one part is malformed, the whole
// answer is an error.
class Receiver {
  // Most parts of one answer.
  static constexpr int kMaxParts = 256;

 public:
  Receiver(OnPartial on_partial, Done<Proposal> done)
      : on_partial_(std::move(on_partial)), done_(std::move(done)) {}

  void TakePartial(const v1::DraftResponse& response) {
    if (!trouble_.ok()) return;
    absl::StatusOr<Proposal> proposal = Read(response);
    if (!proposal.ok()) {
      trouble_ = proposal.status();
    } else if (++num_parts_ > kMaxParts) {
      trouble_ = absl::DataLossError(absl::StrCat(
          "malformed answer of the drafter: more than ", kMaxParts, " parts"));
    } else if (on_partial_) {
      on_partial_(*std::move(proposal));
    }
  }

  void TakeAnswer(absl::StatusOr<v1::DraftResponse> response) {
    if (!response.ok()) {
      std::move(done_)(std::move(response).status());
    } else if (!trouble_.ok()) {
      std::move(done_)(trouble_);
    } else {
      std::move(done_)(Read(*response));
    }
  }

 private:
  OnPartial on_partial_;
  Done<Proposal> done_;
  int num_parts_ = 0;
  absl::Status trouble_;  // the error of a part
};

}  // namespace

RemoteDraftEndpoint::RemoteDraftEndpoint(PeerOptions options, Accept accept)
    : link_(std::make_unique<Link>(std::move(options), std::move(accept))) {}

RemoteDraftEndpoint::~RemoteDraftEndpoint() = default;

void RemoteDraftEndpoint::Propose(ProposeRequest request, absl::Time deadline,
                                  OnPartial on_partial, Done<Proposal> done) {
  v1::DraftRequest message;
  *message.mutable_propose() = ToProto(request, deadline - absl::Now());
  auto receiver =
      std::make_shared<Receiver>(std::move(on_partial), std::move(done));
  link_->Call(
      std::move(message),
      [receiver](auto response, auto /*parts*/) {
        receiver->TakeAnswer(std::move(response));
      },
      ToParts<v1::DraftRequest>(request.features),
      [receiver](auto response) { receiver->TakePartial(response); });
}

void RemoteDraftEndpoint::EndSequence(SequenceId sequence) {
  link_->EndSequence(sequence);
}

PeerStatus RemoteDraftEndpoint::status() const { return link_->status(); }

std::optional<DrafterInfo> RemoteDraftEndpoint::info() const {
  return link_->info();
}

bool RemoteDraftEndpoint::AwaitState(PeerState state,
                                     absl::Time deadline) const {
  return link_->AwaitState(state, deadline);
}

}  // namespace espalier
