// espalier-drafter: serves one drafter as the Drafter service.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/notification.h"
#include "common/base/status_macros.h"
#include "common/config/service_flags.h"
#include "common/obs/log.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/drafter_service.h"
#include "common/rpc/server_runner.h"
#include "drafter/drafter_builder.h"
#include "drafter/drafters.h"

namespace {

using espalier::AccessGate;
using espalier::ServerRunner;

absl::StatusOr<int> Run(const espalier::v1::DrafterConfig& config,
                        espalier::ShutdownSignals& signals) {
  ASSIGN_OR_RETURN(const auto gate, AccessGate::Open(AccessGate::ForPeers(
                                        config.server(), config.token_file())));
  RETURN_IF_ERROR(ServerRunner::CanListen(config.server(), *gate));
  auto metrics = std::make_shared<prometheus::Registry>();
  ASSIGN_OR_RETURN(
      const auto spans,
      espalier::SpanExporter::Start(config.server().tracing(),
                                    {.service = "espalier-drafter"}, *metrics));
  espalier::drafter::DrafterRegistry types("drafter type");
  espalier::drafter::RegisterDrafters(types);
  absl::Status loss;
  espalier::Notification lost;  // then `loss` is set
  ASSIGN_OR_RETURN(
      auto drafter,
      espalier::drafter::BuildDrafter(
          types, config.engine(), *metrics, [&](const absl::Status& why) {
            espalier::LogError(
                absl::StrCat("the device is lost: ", why.message()));
            loss = why;
            lost.Notify();
            signals.Raise();
          }));
  drafter.Trace(spans.get());
  espalier::LogInfo(absl::StrCat("drafter ", drafter.info.name, " of type ",
                                 drafter.info.type, " for ",
                                 drafter.info.model.name));
  espalier::DrafterService service(drafter.endpoint(), drafter.info, gate);
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

}  // namespace

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  espalier::v1::DrafterConfig config;
  if (auto done = espalier::ConfigFromFlags(
          argc, argv, {"espalier-drafter", "Proposes trees of tokens."}, config,
          signals.reload())) {
    return *done;
  }
  return espalier::ExitStatus(Run(config, signals));
}
