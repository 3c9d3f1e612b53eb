#include "verifier/node/node_server.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/device_loss.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/server_runner.h"
#include "verifier/node/node_engines.h"

namespace espalier::node {
namespace {

// One service of the node, and its server.
struct Served {
  std::unique_ptr<PeerService> service;
  std::unique_ptr<ServerRunner> runner = {};
};

absl::StatusOr<std::unique_ptr<ServerRunner>> Listen(
    const v1::ServerConfig& config, const char* name, PeerService& service,
    const std::shared_ptr<AccessGate>& gate,
    const std::shared_ptr<prometheus::Registry>& metrics,
    const DeviceLoss& loss) {
  return ServerRunner::Start({.config = config,
                              .services = {{name, service.calls()}},
                              .registry = metrics,
                              .gate = gate,
                              .drain = [&](absl::Time deadline) {
                                service.Drain(loss.Shorten(deadline));
                              }});
}

absl::Status InField(absl::string_view field, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(field, ".", status.message()));
}

// The gates of the verifier and of the drafters, whose listeners are checked.
absl::StatusOr<std::vector<std::shared_ptr<AccessGate>>> OpenGates(
    const v1::NodeConfig& config) {
  std::vector<std::shared_ptr<AccessGate>> gates;
  const auto open = [&gates](const auto& service) {
    ASSIGN_OR_RETURN(gates.emplace_back(),
                     AccessGate::Open(AccessGate::ForPeers(
                         service.server(), service.token_file())));
    return ServerRunner::CanListen(service.server(), *gates.back());
  };
  RETURN_IF_ERROR(InField("verifier", open(config.verifier())));
  for (int i = 0; i < config.drafters_size(); ++i) {
    RETURN_IF_ERROR(
        InField(absl::StrCat("drafters.", i), open(config.drafters(i))));
  }
  return gates;
}

void FollowGates(const std::vector<std::shared_ptr<AccessGate>>& gates,
                 Reload& reload) {
  for (size_t i = 0; i < gates.size(); ++i) {
    const std::string service =
        i == 0 ? "verifier" : absl::StrCat("drafters.", i - 1);
    AccessGate::Follow(
        gates[i],
        {.roles_file = absl::StrCat(service, ".server.roles_file"),
         .token_file = absl::StrCat(service, ".token_file")},
        reload);
  }
}

// The process has one log.
absl::Status CheckLogLevels(const v1::NodeConfig& config) {
  for (int i = 0; i < config.drafters_size(); ++i) {
    if (config.drafters(i).server().log_level().empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "drafters.", i,
        ".server.log_level: verifier.server.log_level is for all of the node"));
  }
  return absl::OkStatus();
}

// The process has one exporter.
absl::StatusOr<std::unique_ptr<SpanExporter>> StartTracing(
    const v1::NodeConfig& config, prometheus::Registry& metrics) {
  for (int i = 0; i < config.drafters_size(); ++i) {
    if (!config.drafters(i).server().has_tracing()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "drafters.", i,
        ".server.tracing: verifier.server.tracing is for all of the node"));
  }
  auto spans = SpanExporter::Start(config.verifier().server().tracing(),
                                   {.service = "espalier-node"}, metrics);
  if (!spans.ok()) return InField("verifier", spans.status());
  return spans;
}

// Returns the drafters with open fields filled in from the verifier.
std::vector<v1::DrafterEngineConfig> DraftersOf(const v1::NodeConfig& config) {
  std::vector<v1::DrafterEngineConfig> engines;
  for (const v1::DrafterConfig& drafter : config.drafters()) {
    engines.push_back(drafter.engine());
    PlaceBeside(config.verifier().engine(), engines.back());
  }
  return engines;
}

}  // namespace

absl::StatusOr<int> RunNode(const v1::NodeConfig& config,
                            ShutdownSignals& signals) {
  RETURN_IF_ERROR(CheckLogLevels(config));
  ASSIGN_OR_RETURN(const auto gates, OpenGates(config));
  auto metrics = std::make_shared<prometheus::Registry>();
  ASSIGN_OR_RETURN(const auto spans, StartTracing(config, *metrics));
  DeviceLoss loss(signals);
  ASSIGN_OR_RETURN(
      NodeEngines engines,
      BuildNode(config.verifier().engine(), DraftersOf(config), *metrics,
                [&loss](const absl::Status& why) { loss.Report(why); }));
  engines.Trace(spans.get());
  const VerifierInfo info = engines.verifier->info();
  Served verifier = {
      .service = NewVerifierService(engines.verify_endpoint(), info, gates[0])};
  ASSIGN_OR_RETURN(verifier.runner,
                   Listen(config.verifier().server(), "espalier.v1.Verifier",
                          *verifier.service, gates[0], metrics, loss));
  LogInfo(absl::StrCat("model ", info.model.name, " on ", info.device));
  std::vector<Served> drafters;
  for (size_t i = 0; i < engines.drafters.size(); ++i) {
    const drafter::BuiltDrafter& drafter = engines.drafters[i];
    auto& served = drafters.emplace_back();
    served.service =
        NewDrafterService(drafter.endpoint(), drafter.info, gates[i + 1]);
    ASSIGN_OR_RETURN(served.runner,
                     Listen(config.drafters(static_cast<int>(i)).server(),
                            "espalier.v1.Drafter", *served.service,
                            gates[i + 1], metrics, loss));
    LogInfo(absl::StrCat("drafter ", drafter.info.name, " of type ",
                         drafter.info.type));
  }
  FollowGates(gates, signals.reload());
  for (const auto& served : drafters) served.runner->SetServing(true);
  const int status = ServeUntilSignal(*verifier.runner, signals);
  for (const auto& served : drafters) served.runner->DrainAndStop();
  return loss.Or(status);
}

}  // namespace espalier::node
