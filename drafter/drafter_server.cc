#include "drafter/drafter_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/device_loss.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/server_runner.h"
#include "drafter/drafter_builder.h"

namespace espalier::drafter {

absl::StatusOr<int> RunDrafter(const v1::DrafterConfig& config,
                               const DrafterRegistry& types,
                               ShutdownSignals& signals) {
  ASSIGN_OR_RETURN(const auto gate, AccessGate::Open(AccessGate::ForPeers(
                                        config.server(), config.token_file())));
  RETURN_IF_ERROR(ServerRunner::CanListen(config.server(), *gate));
  auto metrics = std::make_shared<prometheus::Registry>();
  ASSIGN_OR_RETURN(
      const auto spans,
      SpanExporter::Start(config.server().tracing(),
                          {.service = "espalier-drafter"}, *metrics));
  DeviceLoss loss(signals);
  ASSIGN_OR_RETURN(auto drafter, BuildDrafter(types, config.engine(), *metrics,
                                              [&loss](const absl::Status& why) {
                                                loss.Report(why);
                                              }));
  drafter.Trace(spans.get());
  LogInfo(absl::StrCat("drafter ", drafter.info.name, " of type ",
                       drafter.info.type, " for ", drafter.info.model.name));
  const auto service =
      NewDrafterService(drafter.endpoint(), drafter.info, gate);
  ASSIGN_OR_RETURN(auto runner,
                   ServerRunner::Start(
                       {.config = config.server(),
                        .services = {{"espalier.v1.Drafter", service->calls()}},
                        .registry = metrics,
                        .gate = gate,
                        .drain = [&](absl::Time deadline) {
                          service->Drain(loss.Shorten(deadline));
                        }}));
  AccessGate::Follow(gate, {}, signals.reload());
  return loss.Or(ServeUntilSignal(*runner, signals));
}

}  // namespace espalier::drafter
