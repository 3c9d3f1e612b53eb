#include "verifier/verifier_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/feature_ring.h"
#include "common/obs/log.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/device_loss.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/server_runner.h"
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
  DeviceLoss loss(signals);
  ASSIGN_OR_RETURN(
      const auto spans,
      SpanExporter::Start(config.server().tracing(),
                          {.service = "espalier-verifier"}, *metrics));
  ASSIGN_OR_RETURN(const auto ring, OpenRingForOthers(config.engine()));
  ASSIGN_OR_RETURN(
      auto engine,
      BuildVerifier(config.engine(), *metrics,
                    {.load = load,
                     .feature_ring = ring,
                     .on_model_lost = [&loss](const absl::Status& why) {
                       loss.Report(why);
                     }}));
  LogInfo(absl::StrCat("model ", engine->info().model.name, " on ",
                       engine->info().device));
  const auto traced = TraceVerifier(*engine, spans.get());
  const auto service =
      NewVerifierService(traced ? *traced : *engine, engine->info(), gate);
  ASSIGN_OR_RETURN(
      auto runner,
      ServerRunner::Start(
          {.config = config.server(),
           .services = {{"espalier.v1.Verifier", service->calls()}},
           .registry = metrics,
           .gate = gate,
           .drain = [&](absl::Time deadline) {
             service->Drain(loss.Shorten(deadline));
           }}));
  AccessGate::Follow(gate, {}, signals.reload());
  return loss.Or(ServeUntilSignal(*runner, signals));
}

}  // namespace espalier::verifier
