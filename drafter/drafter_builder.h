#ifndef ESPALIER_DRAFTER_DRAFTER_BUILDER_H_
#define ESPALIER_DRAFTER_DRAFTER_BUILDER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/messages.h"
#include "common/trace/traced_endpoints.h"
#include "drafter/drafters.h"
#include "drafter/engine/draft_engine.h"
#include "espalier/v1/config.pb.h"
#include "prometheus/registry.h"

namespace espalier::drafter {

struct BuiltDrafter {
  DrafterInfo info;
  std::unique_ptr<DraftEngine> engine;
  std::unique_ptr<DraftEndpoint> traced = nullptr;  // `engine`, with spans

  // From now on `sink` gets the spans of all sequences; null: no spans. The
  // sink must outlive the engine.
  void Trace(SpanSink* sink) {
    traced = TraceDrafter(*engine, info.name, sink);
  }
  DraftEndpoint& endpoint() const { return traced ? *traced : *engine; }
};

// Returns the device of a drafter's network. The network of a replay is another
// drafter's.
std::string DeviceOf(const v1::DrafterEngineConfig& config);

// Makes the drafter that a configuration describes, of one of the types in
// `registry`, ready to draft. `metrics` must outlive it. on_device_lost: see
// DraftEngine::Options. INVALID_ARGUMENT and NOT_FOUND name the field or the
// file, FAILED_PRECONDITION a device that is not here. ring: of the verifier in
// this process, if there is one.
absl::StatusOr<BuiltDrafter> BuildDrafter(
    const DrafterRegistry& registry, const v1::DrafterEngineConfig& config,
    prometheus::Registry& metrics,
    std::function<void(const absl::Status&)> on_device_lost = nullptr,
    std::shared_ptr<const FeatureRing> ring = nullptr);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DRAFTER_BUILDER_H_
