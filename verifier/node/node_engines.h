#ifndef ESPALIER_VERIFIER_NODE_NODE_ENGINES_H_
#define ESPALIER_VERIFIER_NODE_NODE_ENGINES_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/speculation/endpoints.h"
#include "common/trace/span.h"
#include "drafter/drafter_builder.h"
#include "espalier/v1/config.pb.h"
#include "prometheus/registry.h"
#include "verifier/engine/verify_engine.h"

namespace espalier::node {

// A verifier and drafters in one process. Drafters whose networks are on the
// verifier's GPU read the target's features there, in its ring.
struct NodeEngines {
  std::vector<drafter::BuiltDrafter> drafters;
  std::unique_ptr<verifier::VerifyEngine> verifier;
  std::unique_ptr<VerifyEndpoint> traced = nullptr;  // `verifier`, with spans

  // Gives `sink` the spans of all engines from now on, unless it is null. It
  // must outlive them.
  void Trace(SpanSink* sink);
  VerifyEndpoint& verify_endpoint() const {
    return traced ? *traced : *verifier;
  }
};

// Fills in what a drafter's configuration leaves open: the verifier's model;
// and for a network its device, unless the options ask for numbers that are a
// CPU's (compute_type).
void PlaceBeside(const v1::VerifierEngineConfig& verifier,
                 v1::DrafterEngineConfig& drafter);

// Drafters first, as the verifier's K/V takes most of the memory that is left.
// `metrics` must outlive the engines. on_device_lost: called once, on any
// thread, when a device is lost to this process; see DraftEngine and
// VerifyEngine. Errors name the field or the file.
absl::StatusOr<NodeEngines> BuildNode(
    const v1::VerifierEngineConfig& verifier,
    const std::vector<v1::DrafterEngineConfig>& drafters,
    prometheus::Registry& metrics,
    std::function<void(const absl::Status&)> on_device_lost = nullptr);

}  // namespace espalier::node

#endif  // ESPALIER_VERIFIER_NODE_NODE_ENGINES_H_
