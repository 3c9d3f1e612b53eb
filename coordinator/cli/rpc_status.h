#ifndef ESPALIER_COORDINATOR_CLI_RPC_STATUS_H_
#define ESPALIER_COORDINATOR_CLI_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace espalier::cli {

// REQUIRES: !status.ok(). The same code; the message for people reads
// "CODE_NAME: message [field: description]", the bracket being what a
// google.rpc.BadRequest adds, and names `address` if nobody answered there.
absl::Status FromRpcStatus(const grpc::Status& status,
                           const std::string& address);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_RPC_STATUS_H_
