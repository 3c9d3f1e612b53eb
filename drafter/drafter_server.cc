#include "drafter/drafter_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/notification.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/drafter_service.h"
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
  absl::Status loss;
  Notification lost;  // then `loss` is set
  ASSIGN_OR_RETURN(
      auto drafter,
      BuildDrafter(
          types, config.engine(), *metrics, [&](const absl::Status& why) {
            LogError(absl::StrCat("the device is lost: ", why.message()));
            loss = why;
            lost.Notify();
            signals.Raise();
          }));
  drafter.Trace(spans.get());
  LogInfo(absl::StrCat("drafter ", drafter.info.name, " of type ",
                       drafter.info.type, " for ", drafter.info.model.name));
  DrafterService service(drafter.endpoint(), drafter.info, gate);
  ASSIGN_OR_RETURN(
      auto runner,
      ServerRunner::Start(
          {.config = config.server(),
           .services = {{"espalier.v1.Drafter", service.calls()}},
           .registry = metrics,
           .gate = gate,
           .drain = [&](absl::Time deadline) { service.Drain(deadline); }}));
  AccessGate::Follow(gate, {}, signals.reload());
  const int status = ServeUntilSignal(*runner, signals);
  if (lost.HasBeenNotified()) return loss;
  return status;
}

}  // namespace espalier::drafter
