#ifndef ESPALIER_COORDINATOR_CLI_RPC_STATUS_H_
#define ESPALIER_COORDINATOR_CLI_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace espalier::cli {

// Returns the same code; the message is "CODE_NAME: message [field:
// description]", where the bracket comes from a google.rpc.BadRequest, and
// names `address` if the code is UNAVAILABLE. REQUIRES: !status.ok().
absl::Status FromRpcStatus(const grpc::Status& status,
                           const std::string& address);

// UNAVAILABLE. `why` is the system's message; it may be empty.
absl::Status NobodyThere(const std::string& address, absl::string_view why);

// Adds how to start a coordinator if none answered.
absl::Status WithStartHint(const absl::Status& status);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_RPC_STATUS_H_
