#ifndef ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_
#define ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier {

// A parsed "unix:PATH" or "HOST:PORT".
struct ListenAddress {
  std::string unix_path;  // empty: TCP
  std::string host;       // without the brackets of an IPv6 address
  int port = 0;           // 0: any free port

  // INVALID_ARGUMENT quotes the text and says what is wrong with it.
  static absl::StatusOr<ListenAddress> Parse(absl::string_view text);

  // In the format of Parse.
  std::string ToString() const;
};

// Checks that a server could listen on the address now; an error has the
// reason. Removes a Unix socket that no process listens on, e.g. of a process
// that was killed. ALREADY_EXISTS: in use.
absl::Status PrepareToListen(const ListenAddress& address);

// Opens non-blocking listening sockets, one for each IP address of the name;
// the caller closes them. Replaces port 0 by the one that was chosen. Only the
// user of this process can connect to a Unix socket. Errors as PrepareToListen.
absl::StatusOr<std::vector<int>> OpenListeningSockets(ListenAddress& address);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_
