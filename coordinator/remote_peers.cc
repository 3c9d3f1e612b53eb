#include "coordinator/remote_peers.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/obs/log.h"
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

// One link of a pool.
template <typename Link>
void DescribeLink(const typename LinkPool<Link>::LinkState& link,
                  const std::string& about, v1::PeerInfo& out) {
  DescribePeer(link.status, link.status.draining ? "draining" : about, out);
  out.set_address(link.address);
  out.set_sessions(static_cast<uint32_t>(link.sessions));
}

constexpr absl::Duration kResolveEvery = absl::Seconds(3);

}  // namespace

absl::StatusOr<std::unique_ptr<RemotePeers>> RemotePeers::Create(
    const v1::CoordinatorConfig& config, const Options& options) {
  if (config.has_peer_keepalive_ms() && (config.peer_keepalive_ms() < 100 ||
                                         config.peer_keepalive_ms() > 60000)) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer_keepalive_ms: ", config.peer_keepalive_ms(),
                     " is not in 100 .. 60000"));
  }
  Connection connection = {.model = options.model,
                           .metrics = options.metrics,
                           .reload = options.reload};
  if (config.has_peer_keepalive_ms()) {
    connection.keepalive = absl::Milliseconds(config.peer_keepalive_ms());
  }
  std::unique_ptr<RemotePeers> peers(new RemotePeers());
  ASSIGN_OR_RETURN(
      connection.certificates,
      WithPrefix("peer_tls", OpenClientCertificates(config.peer_tls())));
  RETURN_IF_ERROR(peers->ConnectVerifier(config, connection));
  auto in_process = options.in_process.begin();
  for (int i = 0; i < config.drafters_size(); ++i) {
    const v1::CoordinatorDrafter& drafter = config.drafters(i);
    if (!drafter.type().empty()) {
      ESPALIER_CHECK(in_process != options.in_process.end());
      peers->drafters_.push_back(
          {.name = drafter.name(), .in_process = *in_process++});
      continue;
    }
    ASSIGN_OR_RETURN(peers->drafters_.emplace_back(),
                     peers->ConnectDrafter(
                         drafter, absl::StrCat("drafters.", i), connection));
  }
  if (!peers->names_.empty()) {
    peers->resolver_ = std::jthread([self = peers.get()] {
      do {
        self->ResolveAll();
      } while (!self->stopping_.WaitUntil(absl::Now() + kResolveEvery));
    });
  }
  return peers;
}

absl::StatusOr<std::shared_ptr<const TokenFile>> RemotePeers::Connection::Token(
    const std::string& field, const std::string& path) const {
  ASSIGN_OR_RETURN(auto file, WithPrefix(field, TokenFile::Open(path)));
  reload.Add(field, [file] { return file->ReadAgain(); });
  return file;
}

PeerOptions RemotePeers::Connection::Options(
    const std::string& name, const std::string& address,
    std::shared_ptr<const TokenFile> token) const {
  PeerOptions options = {.name = name,
                         .address = address,
                         .model = model,
                         .token = std::move(token),
                         .tls = {.files = certificates, .server_name = name},
                         .registry = metrics};
  if (keepalive) options.keepalive = options.keepalive_timeout = *keepalive;
  return options;
}

RemotePeers::~RemotePeers() {
  stopping_.Notify();
  if (resolver_.joinable()) resolver_.join();
}

template <typename Pool>
absl::Status RemotePeers::Follow(const std::string& field,
                                 const std::string& address, Pool& pool) {
  ASSIGN_OR_RETURN(PeerAddresses addresses,
                   WithPrefix(field, PeerAddresses::Parse(address)));
  if (addresses.is_name()) {
    names_.push_back({.addresses = std::move(addresses),
                      .set = [&pool](const std::vector<std::string>& found) {
                        pool.SetAddresses(found);
                      }});
  } else {
    pool.SetAddresses(addresses.fixed());
  }
  return absl::OkStatus();
}

// A name that cannot be resolved now changes nothing.
void RemotePeers::ResolveAll() {
  for (Name& name : names_) {
    const auto found = name.addresses.Resolve();
    if (found.ok()) {
      name.set(*found);
    } else if (name.last.ok()) {
      LogWarning(std::string(found.status().message()));
    }
    name.last = found.status();
  }
}

absl::Status RemotePeers::ConnectVerifier(const v1::CoordinatorConfig& config,
                                          const Connection& connection) {
  if (config.verifier().empty()) {
    return absl::InvalidArgumentError("verifier: no address is given");
  }
  verifier_address_ = config.verifier();
  ASSIGN_OR_RETURN(
      const auto token,
      connection.Token("verifier_token_file", config.verifier_token_file()));
  verifier_ =
      std::make_unique<Verifier>(LinkPool<RemoteVerifyEndpoint>::Options{
          .name = "verifier",
          .new_link =
              [connection, token](const std::string& address) {
                PeerOptions options =
                    connection.Options("verifier", address, token);
                // The coordinator's health depends on this connection, so a
                // short keepalive finds a stopped verifier soon.
                if (!connection.keepalive) options.keepalive = absl::Seconds(3);
                return std::make_unique<RemoteVerifyEndpoint>(
                    std::move(options));
              },
          .model_of = [](const VerifierInfo& info) { return info.model; },
          .registry = &connection.metrics});
  return Follow("verifier", config.verifier(), verifier_->pool());
}

absl::StatusOr<RemotePeers::Drafter> RemotePeers::ConnectDrafter(
    const v1::CoordinatorDrafter& drafter, const std::string& field,
    const Connection& connection) {
  if (drafter.name().empty() || drafter.address().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": a name is needed, and an address or a type"));
  }
  if (drafter.options_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".options: a drafter with an address has its own"));
  }
  ASSIGN_OR_RETURN(const auto token,
                   connection.Token(absl::StrCat(field, ".token_file"),
                                    drafter.token_file()));
  const auto accept = [verifier = verifier_.get()](const DrafterInfo& info) {
    return CheckFeatures(info.features, verifier->info());
  };
  Drafter out = {.name = drafter.name(), .address = drafter.address()};
  out.endpoint =
      std::make_unique<RemoteDrafter>(LinkPool<RemoteDraftEndpoint>::Options{
          .name = drafter.name(),
          .new_link =
              [connection, token, accept,
               name = drafter.name()](const std::string& address) {
                return std::make_unique<RemoteDraftEndpoint>(
                    connection.Options(name, address, token), accept);
              },
          // Any replica can draft for any text.
          .model_of = [](const DrafterInfo&) { return ModelIdentity(); },
          .registry = &connection.metrics});
  RETURN_IF_ERROR(Follow(absl::StrCat(field, ".address"), drafter.address(),
                         out.endpoint->pool()));
  return out;
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
          [this] {
            return verifier_->pool().status().state == PeerState::kReady;
          },
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
  if (endpoint == nullptr) {
    DescribePeer({.state = PeerState::kReady}, about, out);
    return;
  }
  DescribePeer(endpoint->pool().status(), about, out);
  const auto links = endpoint->pool().Links();
  if (links.size() == 1 && links[0].address == address) return;
  for (const auto& link : links) {
    DescribeLink<RemoteDraftEndpoint>(link, link.info ? link.info->type : "",
                                      *out.add_links());
  }
}

void RemotePeers::Describe(v1::GetServerInfoResponse& response) const {
  const auto verifier_info = verifier_->info();
  v1::PeerInfo& verifier = *response.mutable_verifier();
  verifier.set_address(verifier_address_);
  if (verifier_info) DescribeVerifier(*verifier_info, verifier);
  DescribePeer(verifier_->pool().status(),
               verifier_info ? verifier_info->device : "", verifier);
  const auto links = verifier_->pool().Links();
  if (links.size() != 1 || links[0].address != verifier_address_) {
    for (const auto& link : links) {
      v1::PeerInfo& out = *verifier.add_links();
      if (link.info) DescribeVerifier(*link.info, out);
      DescribeLink<RemoteVerifyEndpoint>(
          link, link.info ? link.info->device : "", out);
    }
  }
  for (const Drafter& drafter : drafters_) {
    drafter.Describe(*response.add_drafters());
  }
}

}  // namespace espalier::coordinator
