#include "verifier/verifier_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/notification.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/feature_ring.h"
#include "common/obs/log.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/server_runner.h"
#include "common/rpc/verifier_service.h"
#include "common/trace/traced_endpoints.h"

namespace espalier::verifier {
namespace {

// Null also if other processes cannot open it.
absl::StatusOr<std::shared_ptr<FeatureRing>> OpenRingForOthers(
    const v1::VerifierEngineConfig& config) {
  ASSIGN_OR_RETURN(auto ring, OpenFeatureRing(config));
  if (ring == nullptr || !ring->info().handle.empty()) return ring;
  LogWarning(
      "drafters get features over gRPC: the device's memory cannot be opened "
      "by "
      "other processes");
  return nullptr;
}

}  // namespace

absl::StatusOr<int> RunVerifier(const v1::VerifierConfig& config,
                                ShutdownSignals& signals,
                                const ModelLoader& load) {
  ASSIGN_OR_RETURN(const auto gate, AccessGate::Open(AccessGate::ForPeers(
                                        config.server(), config.token_file())));
  RETURN_IF_ERROR(ServerRunner::CanListen(config.server(), *gate));
  auto metrics = std::make_shared<prometheus::Registry>();
  absl::Status loss;
  Notification lost;  // then `loss` is set
  const auto on_model_lost = [&](const absl::Status& status) {
    LogError(absl::StrCat("the model is lost: ", status.message()));
    loss = status;
    lost.Notify();
    signals.Raise();
  };
  ASSIGN_OR_RETURN(
      const auto spans,
      SpanExporter::Start(config.server().tracing(),
                          {.service = "espalier-verifier"}, *metrics));
  ASSIGN_OR_RETURN(const auto ring, OpenRingForOthers(config.engine()));
  ASSIGN_OR_RETURN(auto engine,
                   BuildVerifier(config.engine(), *metrics,
                                 {.load = load,
                                  .feature_ring = ring,
                                  .on_model_lost = on_model_lost}));
  LogInfo(absl::StrCat("model ", engine->info().model.name, " on ",
                       engine->info().device));
  const auto traced = TraceVerifier(*engine, spans.get());
  VerifierService service(traced ? *traced : *engine, engine->info(), gate);
  ASSIGN_OR_RETURN(
      auto runner,
      ServerRunner::Start(
          {.config = config.server(),
           .services = {{"espalier.v1.Verifier", service.calls()}},
           .registry = metrics,
           .gate = gate,
           .drain = [&](absl::Time deadline) {
             service.Drain(lost.HasBeenNotified() ? absl::Now() : deadline);
           }}));
  AccessGate::Follow(gate, {}, signals.reload());
  const int status = ServeUntilSignal(*runner, signals);
  if (lost.HasBeenNotified()) return loss;
  return status;
}

}  // namespace espalier::verifier
