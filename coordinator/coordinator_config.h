#ifndef ESPALIER_COORDINATOR_COORDINATOR_CONFIG_H_
#define ESPALIER_COORDINATOR_COORDINATOR_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/rpc/access_gate.h"
#include "coordinator/api/priority_limits.h"
#include "coordinator/rounds/coordinator.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// The limits and defaults of a configuration. The caller adds peers, executor
// and metrics. INVALID_ARGUMENT names the field.
absl::StatusOr<Coordinator::Options> OptionsFromConfig(
    const v1::CoordinatorCoreConfig& config);

// `sink`: null, or where the spans go. INVALID_ARGUMENT names the field of
// `server.tracing`.
absl::StatusOr<Tracing> TracingFromConfig(const v1::TracingConfig& config,
                                          SpanSink* sink);

// INVALID_ARGUMENT names the field.
absl::StatusOr<PriorityLimits> PriorityLimitsFromConfig(
    const v1::CoordinatorCoreConfig& config);

// The listener of the Admin service on `addresses`, and who may use it: by
// `roles_file`, or with a certificate that has the name "operator".
v1::ServerConfig AdminServerConfig(absl::Span<const std::string> addresses,
                                   const v1::AdminConfig& config);
AccessGate::Rules AdminRules(const v1::AdminConfig& config);

// The largest prompt that is read, in bytes. INVALID_ARGUMENT names the field.
absl::StatusOr<int64_t> MaxPromptBytes(const v1::CoordinatorCoreConfig& config);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_COORDINATOR_CONFIG_H_
