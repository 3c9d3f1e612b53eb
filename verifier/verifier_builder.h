#ifndef ESPALIER_VERIFIER_VERIFIER_BUILDER_H_
#define ESPALIER_VERIFIER_VERIFIER_BUILDER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/model/load/load_model.h"
#include "espalier/v1/config.pb.h"
#include "prometheus/registry.h"
#include "verifier/engine/verify_engine.h"

namespace espalier::verifier {

// Reads the model options of a configuration. INVALID_ARGUMENT names the field.
absl::StatusOr<ModelOptions> ModelOptionsFrom(
    const v1::VerifierEngineConfig& config);

using ModelLoader =
    std::function<absl::StatusOr<std::unique_ptr<LanguageModel>>(
        const ModelOptions&)>;

struct VerifierHooks {
  ModelLoader load = LoadModel;
  // See ModelOptions.
  std::shared_ptr<FeatureRing> feature_ring = nullptr;
  // See VerifyEngine::Options.
  std::function<void(const absl::Status&)> on_model_lost = nullptr;
};

// Opens the ring in which a verifier of this configuration leaves features for
// drafters on its GPU; null: on a CPU, if it is configured to have none, or if
// the GPU has no room for it. Make it before others take that room.
// FAILED_PRECONDITION: as OpenComputeDevice.
absl::StatusOr<std::shared_ptr<FeatureRing>> OpenFeatureRing(
    const v1::VerifierEngineConfig& config);

// Builds the verifier that a configuration describes and loads its model.
// `metrics` must outlive it. Errors name the field or the file.
absl::StatusOr<std::unique_ptr<VerifyEngine>> BuildVerifier(
    const v1::VerifierEngineConfig& config, prometheus::Registry& metrics,
    const VerifierHooks& hooks = {});

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFIER_BUILDER_H_
