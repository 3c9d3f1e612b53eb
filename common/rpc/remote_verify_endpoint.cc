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

absl::StatusOr<VerifyResult> Read(
    const v1::VerifyResponse& response,
    const std::vector<v1::VerifyResponse>& parts) {
  ASSIGN_OR_RETURN(VerifyResult verify_result,
                   FromProto(response.verify_result()));
  ASSIGN_OR_RETURN(verify_result.features, FromParts(parts));
  return verify_result;
}

absl::StatusOr<VerifyResult> Read(
    absl::StatusOr<v1::VerifyResponse> response,
    const std::vector<v1::VerifyResponse>& parts) {
  if (!response.ok()) return std::move(response).status();
  if (!response->has_verify_result()) {
    return absl::InternalError("the verifier's answer is no verify_result");
  }
  auto verify_result = Read(*response, parts);
  if (!verify_result.ok()) {
    return absl::InternalError(
        absl::StrCat("malformed answer of the verifier: ",
                     verify_result.status().message()));
  }
  return verify_result;
}

}  // namespace

RemoteVerifyEndpoint::RemoteVerifyEndpoint(PeerOptions options)
    : link_(std::make_unique<Link>(std::move(options))) {}

RemoteVerifyEndpoint::~RemoteVerifyEndpoint() = default;

void RemoteVerifyEndpoint::Verify(VerifyRequest request, absl::Time deadline,
                                  Done<VerifyResult> done) {
  v1::VerifyRequest message;
  *message.mutable_verify() = ToProto(request, deadline - absl::Now());
  // The link outlives its replies: its destructor waits for them.
  link_->Call(std::move(message), [link = link_.get(), done = std::move(done)](
                                      auto response, auto parts) mutable {
    auto verify_result = Read(std::move(response), parts);
    if (verify_result.ok()) {
      link->UpdateInfo([&result = *verify_result](VerifierInfo& info) {
        if (!result.pass_costs.empty()) info.pass_costs = result.pass_costs;
        info.memory = result.memory;
      });
    }
    std::move(done)(std::move(verify_result));
  });
}

void RemoteVerifyEndpoint::EndSequence(SequenceId sequence) {
  link_->EndSequence(sequence);
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
