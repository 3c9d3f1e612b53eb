#ifndef ESPALIER_COORDINATOR_CLI_CHANNEL_H_
#define ESPALIER_COORDINATOR_CLI_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace espalier::cli {

// `address` is "HOST:PORT" or "unix:PATH". Does not connect yet.
// INVALID_ARGUMENT: it is neither.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& address);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CHANNEL_H_
