#include "verifier/node/node_engines.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/model/compute_dtype.h"
#include "common/model/cuda/feature_ring.h"
#include "common/trace/traced_endpoints.h"
#include "drafter/drafters.h"
#include "verifier/verifier_builder.h"

namespace espalier::node {
namespace {

using OnLost = std::function<void(const absl::Status&)>;

// Engines lose their devices at the same time, each on its own thread.
OnLost Once(OnLost on_lost) {
  if (on_lost == nullptr) return nullptr;
  return [on_lost = std::move(on_lost),
          once = std::make_shared<std::once_flag>()](const absl::Status& why) {
    std::call_once(*once, on_lost, why);
  };
}

}  // namespace

void NodeEngines::Trace(SpanSink* sink) {
  for (drafter::BuiltDrafter& drafter : drafters) drafter.Trace(sink);
  traced = TraceVerifier(*verifier, sink);
}

void PlaceBeside(const v1::VerifierEngineConfig& verifier,
                 v1::DrafterEngineConfig& drafter) {
  if (drafter.model().empty()) drafter.set_model(verifier.model());
  auto& options = *drafter.mutable_options();
  const auto type = options.find("compute_type");
  if (!verifier.device().empty() && drafter::RunsOnDevices(drafter.type()) &&
      (type == options.end() || type->second == NameOf(ComputeDType::kFp8))) {
    options.insert({"device", verifier.device()});
  }
}

absl::StatusOr<NodeEngines> BuildNode(
    const v1::VerifierEngineConfig& verifier,
    const std::vector<v1::DrafterEngineConfig>& drafters,
    prometheus::Registry& metrics, OnLost on_device_lost) {
  on_device_lost = Once(std::move(on_device_lost));
  const auto is_beside = [&](const v1::DrafterEngineConfig& drafter) {
    return drafter::DeviceOf(drafter) == verifier.device();
  };
  std::shared_ptr<FeatureRing> ring;
  if (std::any_of(drafters.begin(), drafters.end(), is_beside)) {
    ASSIGN_OR_RETURN(ring, verifier::OpenFeatureRing(verifier));
  }
  drafter::DrafterRegistry types("drafter type");
  drafter::RegisterDrafters(types);
  NodeEngines node;
  for (const v1::DrafterEngineConfig& drafter : drafters) {
    ASSIGN_OR_RETURN(
        node.drafters.emplace_back(),
        drafter::BuildDrafter(types, drafter, metrics, on_device_lost, ring));
  }
  ASSIGN_OR_RETURN(node.verifier,
                   verifier::BuildVerifier(verifier, metrics,
                                           {.feature_ring = ring,
                                            .on_model_lost = on_device_lost}));
  return node;
}

}  // namespace espalier::node
