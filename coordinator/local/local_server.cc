#include "coordinator/local/local_server.h"

#include <utility>

#include "absl/random/random.h"
#include "common/base/status_macros.h"
#include "common/model/files/model_identity.h"
#include "coordinator/api/describe_verifier.h"
#include "coordinator/coordinator_config.h"

namespace espalier::local {

LocalServer::~LocalServer() = default;

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(
    const v1::ServeConfig& config,
    std::function<void(const absl::Status&)> on_model_lost,
    const std::function<absl::Status()>& choose_addresses) {
  std::unique_ptr<LocalServer> server(new LocalServer());
  const v1::TracingConfig& traces = config.server().tracing();
  ASSIGN_OR_RETURN(
      server->spans_,
      SpanExporter::Start(traces, {.service = "espalier"}, *server->metrics_));
  ASSIGN_OR_RETURN(
      const coordinator::Tracing tracing,
      coordinator::TracingFromConfig(traces, server->spans_.get()));
  ASSIGN_OR_RETURN(
      server->engines_,
      node::BuildNode(config.verifier(),
                      {config.drafters().begin(), config.drafters().end()},
                      *server->metrics_, std::move(on_model_lost)));
  server->engines_.Trace(server->spans_.get());
  ASSIGN_OR_RETURN(
      const auto gate,
      AccessGate::Open({.roles_file = config.server().roles_file()}));
  ASSIGN_OR_RETURN(TargetIdentity target,
                   IdentifyTarget(config.verifier().model(),
                                  config.verifier().model_name()));
  ASSIGN_OR_RETURN(server->coordinator_,
                   coordinator::CoordinatorServer::Create(
                       config.core(), server->AsPeers(),
                       {.target = std::move(target),
                        .epoch = absl::Uniform<uint64_t>(absl::BitGen()),
                        .executor = &server->executor_,
                        .metrics = server->metrics_.get(),
                        .gate = gate,
                        .tracing = tracing}));
  if (choose_addresses) RETURN_IF_ERROR(choose_addresses());
  ASSIGN_OR_RETURN(server->http_,
                   server->coordinator_->StartHttp(
                       config.http_listen(), config.http(), server->metrics_));
  ASSIGN_OR_RETURN(
      server->runner_,
      ServerRunner::Start(
          {.config = config.server(),
           .services = server->coordinator_->Services(),
           .registry = server->metrics_,
           .pages = server->coordinator_->StatusPages(),
           .gate = gate,
           .http_address = server->http_address(),
           .max_message_bytes = server->coordinator_->max_message_bytes(),
           .max_streams = server->coordinator_->max_streams(),
           .drain = [self = server.get()](absl::Time deadline) {
             self->coordinator_->Drain(deadline, self->http_.get());
           }}));
  ASSIGN_OR_RETURN(server->admin_,
                   server->coordinator_->StartAdmin(
                       std::vector<std::string>(config.admin_listen().begin(),
                                                config.admin_listen().end()),
                       config.admin(), server->metrics_));
  server->coordinator_->ShowOpenListeners(server->runner_->open_listeners());
  return server;
}

coordinator::Peers LocalServer::AsPeers() {
  coordinator::Peers peers = {
      .verifier = &engines_.verify_endpoint(),
      .verifier_info = [this] { return engines_.verifier->info(); },
      .describe = [this](v1::GetServerInfoResponse& out) { Describe(out); }};
  for (const drafter::BuiltDrafter& drafter : engines_.drafters) {
    peers.drafters.push_back({.name = drafter.info.name,
                              .endpoint = &drafter.endpoint(),
                              .info = [info = drafter.info] { return info; },
                              .trusted = true});
  }
  return peers;
}

void LocalServer::Describe(v1::GetServerInfoResponse& response) const {
  coordinator::DescribeVerifier(engines_.verifier->info(),
                                *response.mutable_verifier());
  for (const drafter::BuiltDrafter& drafter : engines_.drafters) {
    v1::PeerInfo& peer = *response.add_drafters();
    peer.set_name(drafter.info.name);
    peer.set_state(v1::PEER_STATE_READY);
    peer.set_detail(drafter.info.type);
  }
}

}  // namespace espalier::local
