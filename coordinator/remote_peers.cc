#include "coordinator/remote_peers.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/rpc/access_token.h"
#include "coordinator/api/describe_verifier.h"

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

// `about` describes the peer; it is shown if the peer is ready.
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

absl::StatusOr<AccessToken> ReadToken(absl::string_view field,
                                      const std::string& path) {
  auto token = AccessToken::ReadFile(path);
  if (token.ok()) return token;
  return absl::Status(token.status().code(),
                      absl::StrCat(field, ": ", token.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemotePeers>> RemotePeers::Create(
    const v1::CoordinatorConfig& config, const Options& options) {
  if (config.verifier().empty()) {
    return absl::InvalidArgumentError("verifier: no address is given");
  }
  const auto peer = [&options](std::string name, std::string address,
                               AccessToken token) {
    return PeerOptions{.name = std::move(name),
                       .address = std::move(address),
                       .model = options.model,
                       .token = std::move(token),
                       .registry = options.metrics};
  };
  std::unique_ptr<RemotePeers> peers(new RemotePeers());
  peers->verifier_address_ = config.verifier();
  ASSIGN_OR_RETURN(
      AccessToken verifier_token,
      ReadToken("verifier_token_file", config.verifier_token_file()));
  PeerOptions verifier_options =
      peer("verifier", config.verifier(), std::move(verifier_token));
  // The coordinator's health depends on this connection, so a short keepalive
  // finds a stopped verifier soon.
  verifier_options.keepalive = absl::Seconds(3);
  peers->verifier_ =
      std::make_unique<RemoteVerifyEndpoint>(std::move(verifier_options));
  const RemoteVerifyEndpoint* const verifier = peers->verifier_.get();
  for (int i = 0; i < config.drafters_size(); ++i) {
    const v1::DrafterAddress& drafter = config.drafters(i);
    if (drafter.name().empty() || drafter.address().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("drafters.", i, ": name and address are both needed"));
    }
    ASSIGN_OR_RETURN(AccessToken token,
                     ReadToken(absl::StrCat("drafters.", i, ".token_file"),
                               drafter.token_file()));
    peers->drafters_.push_back(
        {drafter.name(), drafter.address(),
         std::make_unique<RemoteDraftEndpoint>(
             peer(drafter.name(), drafter.address(), std::move(token)),
             [verifier](const DrafterInfo& info) {
               return CheckFeatures(info.features, verifier->info());
             })});
  }
  return peers;
}

Peers RemotePeers::AsPeers() {
  Peers peers = {
      .verifier = verifier_.get(),
      .verifier_info = [this] { return verifier_->info(); },
      .verifier_is_ready =
          [this] { return verifier_->status().state == PeerState::kReady; },
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
