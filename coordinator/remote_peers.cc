#include "coordinator/remote_peers.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/describe_verifier.h"

namespace espalier::coordinator {
namespace {

v1::PeerState ToProto(PeerState state) {
  switch (state) {
    case PeerState::kConnecting:
      return v1::PEER_STATE_CONNECTING;
    case PeerState::kReady:
      return v1::PEER_STATE_READY;
    case PeerState::kRefused:
      return v1::PEER_STATE_REFUSED;
  }
  return v1::PEER_STATE_UNSPECIFIED;
}

// `about`: what a ready peer is.
void DescribePeer(const PeerStatus& status, const std::string& about,
                  v1::PeerInfo& out) {
  out.set_state(ToProto(status.state));
  out.set_detail(status.state == PeerState::kReady ? about : status.reason);
}

// Whether the verifier's model has the hidden states that a drafter wants.
absl::Status CheckFeatures(const FeatureContract& wanted,
                           const std::optional<VerifierInfo>& verifier) {
  if (wanted.taps.empty()) return absl::OkStatus();
  if (!verifier.has_value()) {
    return absl::UnavailableError(
        "it wants hidden states, and the verifier is not known yet");
  }
  if (verifier->shape.Serves(wanted)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "it wants hidden states before the layers ",
      absl::StrJoin(wanted.taps, ", "), " of ", wanted.hidden_size,
      " numbers; the verifier's model has ", verifier->shape.num_layers,
      " layers of ", verifier->shape.hidden_size));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemotePeers>> RemotePeers::Create(
    const v1::CoordinatorConfig& config, const Options& options) {
  if (config.verifier().empty()) {
    return absl::InvalidArgumentError("verifier: no address is given");
  }
  const auto peer = [&options](std::string name, std::string address) {
    return PeerOptions{.name = std::move(name),
                       .address = std::move(address),
                       .model = options.model,
                       .epoch = options.epoch,
                       .registry = options.metrics};
  };
  std::unique_ptr<RemotePeers> peers(new RemotePeers());
  peers->verifier_address_ = config.verifier();
  peers->verifier_ = std::make_unique<RemoteVerifyEndpoint>(
      peer("verifier", config.verifier()));
  const RemoteVerifyEndpoint* const verifier = peers->verifier_.get();
  for (int i = 0; i < config.drafters_size(); ++i) {
    const v1::DrafterAddress& drafter = config.drafters(i);
    if (drafter.name().empty() || drafter.address().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("drafters.", i, ": name and address are both needed"));
    }
    peers->drafters_.push_back({drafter.name(), drafter.address(),
                                std::make_unique<RemoteDraftEndpoint>(
                                    peer(drafter.name(), drafter.address()),
                                    [verifier](const DrafterInfo& info) {
                                      return CheckFeatures(info.features,
                                                           verifier->info());
                                    })});
  }
  return peers;
}

Peers RemotePeers::AsPeers() {
  Peers peers = {
      .verifier = verifier_.get(),
      .verifier_info = [this] { return verifier_->info(); },
      .describe = [this](v1::GetServerInfoResponse& out) { Describe(out); }};
  for (Drafter& drafter : drafters_) {
    RemoteDraftEndpoint* const endpoint = drafter.endpoint.get();
    peers.drafters.push_back(
        {drafter.name, endpoint, [endpoint] { return endpoint->info(); }});
  }
  return peers;
}

void RemotePeers::Describe(v1::GetServerInfoResponse& response) const {
  const auto verifier_info = verifier_->info();
  v1::PeerInfo& verifier = *response.mutable_verifier();
  verifier.set_address(verifier_address_);
  if (verifier_info) DescribeVerifier(*verifier_info, verifier);
  DescribePeer(verifier_->status(), verifier_info ? verifier_info->device : "",
               verifier);
  for (const Drafter& drafter : drafters_) {
    const auto info = drafter.endpoint->info();
    v1::PeerInfo& peer = *response.add_drafters();
    peer.set_name(drafter.name);
    peer.set_address(drafter.address);
    DescribePeer(drafter.endpoint->status(), info ? info->type : "", peer);
  }
}

}  // namespace espalier::coordinator
