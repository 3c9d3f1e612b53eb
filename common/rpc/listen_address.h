#ifndef ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_
#define ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier {

// "unix:PATH" or "HOST:PORT", taken apart.
struct ListenAddress {
  std::string unix_path;  // empty: TCP
  std::string host;       // without the brackets of an IPv6 address
  int port = 0;           // 0: a free one

  // INVALID_ARGUMENT names the text and what is wrong with it.
  static absl::StatusOr<ListenAddress> Parse(absl::string_view text);

  // As Parse takes it.
  std::string ToString() const;
};

// Whether a server could listen there now, with the reason if not: gRPC logs
// its reasons instead of returning them, and replaces Unix sockets that are in
// use. Removes a Unix socket that nobody listens on, as a killed process leaves
// it. ALREADY_EXISTS: in use.
absl::Status PrepareToListen(const ListenAddress& address);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_
