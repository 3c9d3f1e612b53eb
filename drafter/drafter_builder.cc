#include "drafter/drafter_builder.h"

#include <utility>

#include "absl/status/status.h"
#include "common/base/cpu_group.h"
#include "common/base/idle_spin.h"
#include "common/base/serial_executor.h"
#include "common/base/status_macros.h"
#include "common/model/files/model_identity.h"

namespace espalier::drafter {

std::string DeviceOf(const v1::DrafterEngineConfig& config) {
  for (const char* option : {"device", "drafter.device"}) {
    const auto found = config.options().find(option);
    if (found != config.options().end()) return found->second;
  }
  return "cpu";
}

absl::StatusOr<BuiltDrafter> BuildDrafter(
    const DrafterRegistry& registry, const v1::DrafterEngineConfig& config,
    prometheus::Registry& metrics,
    std::function<void(const absl::Status&)> on_device_lost,
    std::shared_ptr<const FeatureRing> ring) {
  if (config.name().empty()) {
    return absl::InvalidArgumentError("engine.name: a drafter needs a name");
  }
  ASSIGN_OR_RETURN(TargetIdentity target,
                   IdentifyTarget(config.model(), /*name=*/""));
  const DrafterOptions options = {
      .options = {config.options().begin(), config.options().end()},
      .target_folder = config.model(),
      .vocab_size = target.identity.vocab_size,
      .tokenizer_fingerprint = target.identity.tokenizer_fingerprint};
  ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter,
                   registry.Create(config.type(), options));

  DraftEngine::Options engine = {
      .name = config.name(),
      .vocab_size = target.identity.vocab_size,
      .supports_lookahead = drafter->supports_lookahead(),
      .on_device_lost = std::move(on_device_lost)};
  if (config.has_max_sequences()) {
    engine.store.max_sequences = config.max_sequences();
  }
  FeatureStore* const features = drafter->features();
  if (features != nullptr && ring != nullptr) features->UseRing(ring);
  BuiltDrafter built;
  built.info = {.name = config.name(),
                .type = config.type(),
                .model = target.identity,
                .max_nodes = engine.max_nodes,
                .max_depth = engine.max_depth,
                .features = WantedFeatures(*drafter),
                .cpu_group = CpuGroup(),
                .supports_lookahead = engine.supports_lookahead,
                .needs_grammar = drafter->needs_grammar(),
                .device_id = features == nullptr ? 0 : features->device_id(),
                .ranks = drafter->ranks()};
  built.engine = std::make_unique<DraftEngine>(
      engine, std::move(drafter),
      std::make_unique<SerialExecutor>(config.name(),
                                       SpinBeside(DeviceOf(config))),
      MakeDrafterMetrics(metrics, config.name()));
  return built;
}

}  // namespace espalier::drafter
