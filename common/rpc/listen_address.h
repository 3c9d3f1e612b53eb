#ifndef ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_
#define ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier {

// Who may connect to a Unix socket.
struct SocketPermissions {
  mode_t mode = 0600;
  std::optional<gid_t> group = std::nullopt;  // nullopt: the process's

  // `mode`: octal digits; `group`: a name or a number; empty: the default.
  // INVALID_ARGUMENT quotes what is wrong.
  static absl::StatusOr<SocketPermissions> Parse(const std::string& mode,
                                                 const std::string& group);
};

// A parsed "unix:PATH" or "HOST:PORT".
struct ListenAddress {
  std::string unix_path;  // empty: TCP
  std::string host;       // without the brackets of an IPv6 address
  int port = 0;           // 0: any free port
  SocketPermissions permissions = {};  // of the Unix socket

  // INVALID_ARGUMENT quotes the text and says what is wrong with it.
  static absl::StatusOr<ListenAddress> Parse(absl::string_view text);

  // In the format of Parse.
  std::string ToString() const;

  // Returns true if only this machine reaches it: a Unix socket, "localhost",
  // ::1 or 127.0.0.0/8.
  bool IsLocal() const;
};

// Checks that a server could listen on the address now; an error has the
// reason. Removes a Unix socket that no process listens on, e.g. of a process
// that was killed. ALREADY_EXISTS: in use.
absl::Status PrepareToListen(const ListenAddress& address);

// Opens non-blocking listening sockets, one for each IP address of the name;
// the caller closes them. Replaces port 0 by the one that was chosen. Errors as
// PrepareToListen.
absl::StatusOr<std::vector<int>> OpenListeningSockets(ListenAddress& address);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_LISTEN_ADDRESS_H_
