#ifndef ESPALIER_DRAFTER_DRAFTER_BUILDER_H_
#define ESPALIER_DRAFTER_DRAFTER_BUILDER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/spec/messages.h"
#include "drafter/draft_engine.h"
#include "espalier/v1/config.pb.h"
#include "prometheus/registry.h"

namespace espalier::drafter {

struct BuiltDrafter {
  DrafterInfo info;
  std::unique_ptr<DraftEngine> engine;
};

// The drafter that a configuration describes, ready to draft. `metrics` must
// outlive it. INVALID_ARGUMENT and NOT_FOUND name the field or the file.
absl::StatusOr<BuiltDrafter> BuildDrafter(const v1::DrafterEngineConfig& config,
                                          prometheus::Registry& metrics);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DRAFTER_BUILDER_H_
