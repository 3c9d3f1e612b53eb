// Shows what gRPC reads from a connection with TLS and writes to it, in plain.
// As socket_tap does for sockets, this library defines SSL_read and SSL_write,
// which gRPC calls; they do what OpenSSL's do, and for tapped handshakes show
// the bytes. gRPC does not tell which connection an SSL object belongs to: both
// know the random number with which the client began. Thread-safe.
#ifndef ESPALIER_COMMON_RPC_TLS_TAP_H_
#define ESPALIER_COMMON_RPC_TLS_TAP_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/rpc/socket_tap.h"

namespace espalier {

// Finds the client's random number in the first bytes of a connection (RFC
// 8446, section 4.1.2). Not thread-safe.
class ClientRandom {
 public:
  enum class State { kUnfinished, kFound, kNotTls };
  // Takes the next bytes. After kFound or kNotTls they do not matter.
  State Feed(absl::string_view bytes);
  // 32 bytes. REQUIRES: kFound.
  std::string value() const;

 private:
  State Check() const;
  std::string begin_;
};

// Shows `observer` the bytes of the server's side of the connection whose
// client has begun with `random`. What it returns is not looked at. False:
// another connection has begun with it and has sent nothing yet.
bool TapTls(const std::string& random,
            std::shared_ptr<SocketObserver> observer);

// Forgets `random`, if its connection has sent nothing yet.
void UntapTls(const std::string& random);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_TLS_TAP_H_
