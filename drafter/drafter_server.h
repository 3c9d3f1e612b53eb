#ifndef ESPALIER_DRAFTER_DRAFTER_SERVER_H_
#define ESPALIER_DRAFTER_DRAFTER_SERVER_H_

#include "absl/status/statusor.h"
#include "common/rpc/shutdown_signals.h"
#include "drafter/drafters.h"
#include "espalier/v1/config.pb.h"

namespace espalier::drafter {

// Runs the drafter service, with a drafter of one of `types`, until a signal
// arrives; the exit status. If the drafter's device is lost to this process,
// the status is its error: a supervisor starts the service again.
absl::StatusOr<int> RunDrafter(const v1::DrafterConfig& config,
                               const DrafterRegistry& types,
                               ShutdownSignals& signals);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DRAFTER_SERVER_H_
