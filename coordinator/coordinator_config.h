#ifndef ESPALIER_COORDINATOR_COORDINATOR_CONFIG_H_
#define ESPALIER_COORDINATOR_COORDINATOR_CONFIG_H_

#include "absl/status/statusor.h"
#include "coordinator/coordinator.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// The limits and defaults that a configuration sets; peers and plumbing are
// the caller's. INVALID_ARGUMENT names the field.
absl::StatusOr<Coordinator::Options> OptionsFromConfig(
    const v1::CoordinatorCoreConfig& config);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_COORDINATOR_CONFIG_H_
