#include "common/rpc/remote_verify_endpoint.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/feature_chunks.h"
#include "common/rpc/peer_link.h"
#include "common/rpc/wire.h"

namespace espalier {

class RemoteVerifyEndpoint::Link : public PeerLink<VerifyWire> {
  using PeerLink::PeerLink;
};

namespace {

absl::StatusOr<Verdict> Read(const v1::VerifyResponse& response,
                             const std::vector<v1::VerifyResponse>& parts) {
  ASSIGN_OR_RETURN(Verdict verdict, FromProto(response.verdict()));
  ASSIGN_OR_RETURN(verdict.features, FromParts(parts));
  return verdict;
}

absl::StatusOr<Verdict> Read(absl::StatusOr<v1::VerifyResponse> response,
                             const std::vector<v1::VerifyResponse>& parts) {
  if (!response.ok()) return std::move(response).status();
  if (!response->has_verdict()) {
    return absl::InternalError("the verifier's answer is no verdict");
  }
  auto verdict = Read(*response, parts);
  if (!verdict.ok()) {
    return absl::InternalError(absl::StrCat(
        "malformed answer of the verifier: ", verdict.status().message()));
  }
  return verdict;
}

}  // namespace

RemoteVerifyEndpoint::RemoteVerifyEndpoint(PeerOptions options)
    : link_(std::make_unique<Link>(std::move(options))) {}

RemoteVerifyEndpoint::~RemoteVerifyEndpoint() = default;

void RemoteVerifyEndpoint::Verify(VerifyRequest request, absl::Time deadline,
                                  Done<Verdict> done) {
  v1::VerifyRequest message;
  *message.mutable_verify() = ToProto(request, deadline - absl::Now());
  // The link waits for its replies before it goes.
  link_->Call(std::move(message), [link = link_.get(), done = std::move(done)](
                                      auto response, auto parts) mutable {
    auto verdict = Read(std::move(response), parts);
    if (verdict.ok() && !verdict->pass_costs.empty()) {
      link->UpdateInfo([&verdict](VerifierInfo& info) {
        info.pass_costs = verdict->pass_costs;
      });
    }
    std::move(done)(std::move(verdict));
  });
}

void RemoteVerifyEndpoint::EndSequence(SequenceId sequence) {
  v1::VerifyRequest message;
  *message.mutable_end_sequence() = ToProto(sequence);
  link_->Send(std::move(message));
}

PeerStatus RemoteVerifyEndpoint::status() const { return link_->status(); }

std::optional<VerifierInfo> RemoteVerifyEndpoint::info() const {
  return link_->info();
}

bool RemoteVerifyEndpoint::AwaitState(PeerState state,
                                      absl::Time deadline) const {
  return link_->AwaitState(state, deadline);
}

}  // namespace espalier
