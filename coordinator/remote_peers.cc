#include "coordinator/remote_peers.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/access_token.h"
#include "common/rpc/channel_tls.h"
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

// A peer's certificate has its name.
PeerOptions PeerOf(const std::string& name, std::string address,
                   AccessToken token,
                   const std::shared_ptr<CertificateFiles>& certificates,
                   const RemotePeers::Options& options) {
  return {.name = name,
          .address = std::move(address),
          .model = options.model,
          .token = std::move(token),
          .tls = {.files = certificates, .server_name = name},
          .registry = options.metrics};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemotePeers>> RemotePeers::Create(
    const v1::CoordinatorConfig& config, const Options& options) {
  if (config.verifier().empty()) {
    return absl::InvalidArgumentError("verifier: no address is given");
  }
  std::unique_ptr<RemotePeers> peers(new RemotePeers());
  peers->verifier_address_ = config.verifier();
  auto certificates = OpenClientCertificates(config.peer_tls());
  if (!certificates.ok()) {
    return absl::Status(
        certificates.status().code(),
        absl::StrCat("peer_tls: ", certificates.status().message()));
  }
  peers->certificates_ = *std::move(certificates);
  ASSIGN_OR_RETURN(
      AccessToken verifier_token,
      ReadToken("verifier_token_file", config.verifier_token_file()));
  PeerOptions verifier_options =
      PeerOf("verifier", config.verifier(), std::move(verifier_token),
             peers->certificates_, options);
  // The coordinator's health depends on this connection, so a short keepalive
  // finds a stopped verifier soon.
  verifier_options.keepalive = absl::Seconds(3);
  peers->verifier_ =
      std::make_unique<RemoteVerifyEndpoint>(std::move(verifier_options));
  auto in_process = options.in_process.begin();
  for (int i = 0; i < config.drafters_size(); ++i) {
    const v1::CoordinatorDrafter& drafter = config.drafters(i);
    const std::string field = absl::StrCat("drafters.", i);
    if (!drafter.type().empty()) {
      ESPALIER_CHECK(in_process != options.in_process.end());
      peers->drafters_.push_back(
          {.name = drafter.name(), .in_process = *in_process++});
      continue;
    }
    ASSIGN_OR_RETURN(peers->drafters_.emplace_back(),
                     peers->Connect(drafter, field, options));
  }
  return peers;
}

absl::StatusOr<RemotePeers::Drafter> RemotePeers::Connect(
    const v1::CoordinatorDrafter& drafter, absl::string_view field,
    const Options& options) const {
  if (drafter.name().empty() || drafter.address().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": a name is needed, and an address or a type"));
  }
  if (drafter.options_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".options: a drafter with an address has its own"));
  }
  ASSIGN_OR_RETURN(
      AccessToken token,
      ReadToken(absl::StrCat(field, ".token_file"), drafter.token_file()));
  return Drafter{.name = drafter.name(),
                 .address = drafter.address(),
                 .endpoint = std::make_unique<RemoteDraftEndpoint>(
                     PeerOf(drafter.name(), drafter.address(), std::move(token),
                            certificates_, options),
                     [verifier = verifier_.get()](const DrafterInfo& info) {
                       return CheckFeatures(info.features, verifier->info());
                     })};
}

DrafterHandle RemotePeers::Drafter::AsHandle() const {
  if (endpoint == nullptr) return in_process;
  return {name, endpoint.get(),
          [remote = endpoint.get()] { return remote->info(); }};
}

Peers RemotePeers::AsPeers() {
  Peers peers = {
      .verifier = verifier_.get(),
      .verifier_info = [this] { return verifier_->info(); },
      .verifier_is_ready =
          [this] { return verifier_->status().state == PeerState::kReady; },
      .describe = [this](v1::GetServerInfoResponse& out) { Describe(out); }};
  for (const Drafter& drafter : drafters_) {
    peers.drafters.push_back(drafter.AsHandle());
  }
  return peers;
}

void RemotePeers::Drafter::Describe(v1::PeerInfo& out) const {
  const std::optional<DrafterInfo> info = AsHandle().info();
  const std::string about = info ? info->type : "";
  out.set_name(name);
  out.set_address(address);
  DescribePeer(endpoint == nullptr ? PeerStatus{.state = PeerState::kReady}
                                   : endpoint->status(),
               about, out);
}

void RemotePeers::Describe(v1::GetServerInfoResponse& response) const {
  const auto verifier_info = verifier_->info();
  v1::PeerInfo& verifier = *response.mutable_verifier();
  verifier.set_address(verifier_address_);
  if (verifier_info) DescribeVerifier(*verifier_info, verifier);
  DescribePeer(verifier_->status(), verifier_info ? verifier_info->device : "",
               verifier);
  for (const Drafter& drafter : drafters_) {
    drafter.Describe(*response.add_drafters());
  }
}

}  // namespace espalier::coordinator
