#ifndef ESPALIER_COORDINATOR_CLI_CHANNEL_H_
#define ESPALIER_COORDINATOR_CLI_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/access_token.h"
#include "common/rpc/channel_tls.h"

namespace espalier::cli {

// How a server is made sure of, and what is shown to it with every call.
struct Credentials {
  ChannelTls tls = {};
  AccessToken token = {};
};

// `address` is "HOST:PORT" or "unix:PATH". Does not connect yet.
// INVALID_ARGUMENT: it is neither.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& address, const Credentials& credentials = {});

// Connects. Returns when this has succeeded or failed once, or at the deadline.
// UNAVAILABLE names `address`.
absl::Status AwaitConnection(grpc::Channel& channel, const std::string& address,
                             absl::Time deadline);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CHANNEL_H_
