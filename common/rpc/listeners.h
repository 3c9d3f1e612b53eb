#ifndef ESPALIER_COMMON_RPC_LISTENERS_H_
#define ESPALIER_COMMON_RPC_LISTENERS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/listen_address.h"
#include "espalier/v1/config.pb.h"

namespace espalier {

// Errors of all functions name the field.

// Returns the addresses of `listen`, of which there is one at least.
absl::StatusOr<std::vector<ListenAddress>> ListenersOf(
    const v1::ServerConfig& config);

// Returns the address of the metrics; nullopt: none.
absl::StatusOr<std::optional<ListenAddress>> MetricsListenerOf(
    const v1::ServerConfig& config);

// Returns a line about each address beyond the loopback that everybody who
// reaches it may use: one of `listen` without TLS and tokens, and that of the
// metrics without roles. `asks`: callers must show a token. INVALID_ARGUMENT:
// there are such addresses, and server.insecure does not allow them.
absl::StatusOr<std::vector<std::string>> OpenListeners(
    const v1::ServerConfig& config, bool asks);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_LISTENERS_H_
