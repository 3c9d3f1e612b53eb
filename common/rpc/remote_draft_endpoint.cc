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

absl::StatusOr<Proposal> Read(absl::StatusOr<v1::DraftResponse> response) {
  if (!response.ok()) return std::move(response).status();
  if (!response->has_proposal()) {
    return absl::InternalError("the drafter's answer is no proposal");
  }
  auto proposal = FromProto(response->proposal());
  if (!proposal.ok()) {
    return absl::InternalError(absl::StrCat("malformed answer of the drafter: ",
                                            proposal.status().message()));
  }
  return proposal;
}

}  // namespace

RemoteDraftEndpoint::RemoteDraftEndpoint(PeerOptions options)
    : link_(std::make_unique<Link>(std::move(options))) {}

RemoteDraftEndpoint::~RemoteDraftEndpoint() = default;

void RemoteDraftEndpoint::Propose(ProposeRequest request, absl::Time deadline,
                                  Done<Proposal> done) {
  v1::DraftRequest message;
  *message.mutable_propose() = ToProto(request, deadline - absl::Now());
  link_->Call(
      std::move(message),
      [done = std::move(done)](auto response, auto /*parts*/) mutable {
        std::move(done)(Read(std::move(response)));
      },
      ToParts<v1::DraftRequest>(request.features));
}

void RemoteDraftEndpoint::EndSequence(SequenceId sequence) {
  v1::DraftRequest message;
  *message.mutable_end_sequence() = ToProto(sequence);
  link_->Send(std::move(message));
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
