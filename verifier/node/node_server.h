#ifndef ESPALIER_VERIFIER_NODE_NODE_SERVER_H_
#define ESPALIER_VERIFIER_NODE_NODE_SERVER_H_

#include "absl/status/statusor.h"
#include "common/rpc/shutdown_signals.h"
#include "espalier/v1/config.pb.h"

namespace espalier::node {

// Runs the services of a node until a signal arrives, and returns the exit
// status. Each service listens on addresses of its own, as if it were a
// process. If a device is lost to this process, all services end with that
// error: a supervisor starts the node again, and its coordinators go on from
// their tokens.
absl::StatusOr<int> RunNode(const v1::NodeConfig& config,
                            ShutdownSignals& signals);

}  // namespace espalier::node

#endif  // ESPALIER_VERIFIER_NODE_NODE_SERVER_H_
