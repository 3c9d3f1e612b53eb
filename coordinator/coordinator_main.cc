// espalier-coordinator: serves the client API. Drafters and the verifier are
// services of their own.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/secret_number.h"
#include "common/base/serial_executor.h"
#include "common/base/status_macros.h"
#include "common/config/service_flags.h"
#include "common/model/files/model_identity.h"
#include "common/obs/log.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/server_runner.h"
#include "coordinator/coordinator_config.h"
#include "coordinator/coordinator_server.h"
#include "coordinator/in_process_peers.h"
#include "coordinator/remote_peers.h"

namespace {

using espalier::AccessGate;
using espalier::PeerState;
using espalier::ServerRunner;
using espalier::coordinator::CoordinatorServer;
using espalier::coordinator::HttpServer;
using espalier::coordinator::InProcessPeers;
using espalier::coordinator::RemotePeers;
using espalier::coordinator::TracingFromConfig;

// Longer than a warm-up takes.
constexpr absl::Duration kWarmUp = absl::Seconds(4);
constexpr absl::Duration kLook = absl::Milliseconds(100);

// The service is healthy while the verifier is connected, from the end of the
// warm-up on. Looks ten times a second whether it has to end.
void ReportHealth(std::stop_token stop, const RemotePeers& peers,
                  CoordinatorServer& server, ServerRunner& runner) {
  bool serving = false;
  while (!stop.stop_requested()) {
    const PeerState other =
        serving ? PeerState::kConnecting : PeerState::kReady;
    if (!peers.AwaitVerifier(other, absl::Now() + kLook)) continue;
    serving = !serving;
    if (serving) server.AwaitWarm(absl::Now() + kWarmUp);
    if (stop.stop_requested()) break;
    runner.SetServing(serving);
    espalier::LogInfo(serving ? "serving" : "the verifier is away");
  }
}

absl::StatusOr<int> Run(const espalier::v1::CoordinatorConfig& config,
                        espalier::ShutdownSignals& signals) {
  ASSIGN_OR_RETURN(
      const auto gate,
      AccessGate::Open({.roles_file = config.server().roles_file()}));
  RETURN_IF_ERROR(ServerRunner::CanListen(config.server(), *gate));
  if (!config.http_listen().empty()) {
    RETURN_IF_ERROR(HttpServer::Check(config.http_listen(), config.http()));
  }
  auto metrics = std::make_shared<prometheus::Registry>();
  ASSIGN_OR_RETURN(auto target,
                   espalier::IdentifyTarget(config.model(), /*name=*/""));
  ASSIGN_OR_RETURN(const auto spans,
                   espalier::SpanExporter::Start(
                       config.server().tracing(),
                       {.service = "espalier-coordinator"}, *metrics));
  ASSIGN_OR_RETURN(const auto tracing,
                   TracingFromConfig(config.server().tracing(), spans.get()));
  espalier::SerialExecutor executor("coordinator");
  ASSIGN_OR_RETURN(const auto in_process,
                   InProcessPeers::Create(config, *metrics, spans.get()));
  ASSIGN_OR_RETURN(
      auto peers,
      RemotePeers::Create(config, {.model = target.identity,
                                   .metrics = *metrics,
                                   .in_process = in_process.AsHandles(),
                                   .reload = signals.reload()}));
  ASSIGN_OR_RETURN(auto server,
                   CoordinatorServer::Create(config.core(), peers->AsPeers(),
                                             {.target = std::move(target),
                                              .epoch = espalier::SecretNumber(),
                                              .executor = &executor,
                                              .metrics = metrics.get(),
                                              .gate = gate,
                                              .tracing = tracing}));
  ASSIGN_OR_RETURN(const auto http, server->StartHttp(config.http_listen(),
                                                      config.http(), metrics));
  ASSIGN_OR_RETURN(
      auto runner,
      ServerRunner::Start({.config = config.server(),
                           .services = server->Services(),
                           .registry = metrics,
                           .pages = server->StatusPages(),
                           .gate = gate,
                           .http_address = http ? http->address() : "",
                           .max_message_bytes = server->max_message_bytes(),
                           .max_streams = server->max_streams(),
                           .drain = [&](absl::Time deadline) {
                             server->Drain(deadline, http.get());
                           }}));
  server->ShowOpenListeners(runner->open_listeners());
  ASSIGN_OR_RETURN(
      const auto admin,
      server->StartAdmin(std::vector<std::string>(config.admin_listen().begin(),
                                                  config.admin_listen().end()),
                         config.admin(), metrics));
  server->Follow(signals.reload(), http.get());
  std::jthread health([&](std::stop_token stop) {
    ReportHealth(stop, *peers, *server, *runner);
  });
  signals.Wait();
  health.request_stop();  // it ends while the server drains
  runner->DrainAndStop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  espalier::v1::CoordinatorConfig config;
  if (auto done = espalier::ConfigFromFlags(
          argc, argv,
          {"espalier-coordinator",
           "Serves clients; asks drafters and a verifier."},
          config, signals.reload())) {
    return *done;
  }
  return espalier::ExitStatus(Run(config, signals));
}
