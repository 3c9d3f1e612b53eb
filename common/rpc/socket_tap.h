// Shows what gRPC reads from a socket and writes to it. gRPC 1.51 has no place
// for that: its endpoints cannot be wrapped, and a relay would add two copies
// and two wake-ups to each message. So this library defines recvmsg and
// sendmsg, which gRPC calls for every socket; they do what the system's do, and
// for tapped sockets show the bytes. Thread-safe.
#ifndef ESPALIER_COMMON_RPC_SOCKET_TAP_H_
#define ESPALIER_COMMON_RPC_SOCKET_TAP_H_

#include <memory>

#include "absl/strings/string_view.h"

namespace espalier {

class SocketObserver {
 public:
  virtual ~SocketObserver() = default;
  // Each returns false if the connection is to be closed. Called on the thread
  // that reads or writes; one may read while another one writes.
  virtual bool OnReceived(absl::string_view bytes) = 0;
  virtual bool OnSent(absl::string_view bytes) = 0;
};

// Largest descriptor that can be tapped.
inline constexpr int kMaxTapped = (1 << 16) - 1;

// Shows `observer` what passes through the socket, until the descriptor is
// closed or tapped again. False: the descriptor is too large.
bool TapSocket(int descriptor, std::shared_ptr<SocketObserver> observer);

// The following do nothing if the descriptor is tapped by another observer.

// Ends the connection; both sides see its end.
void CloseTapped(int descriptor, const SocketObserver& observer);

// Forgets the observer, if the descriptor has been closed since. Returns
// whether it is forgotten.
bool ForgetClosed(int descriptor, const SocketObserver& observer);

// Forgets the observer.
void Untap(int descriptor, const SocketObserver& observer);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SOCKET_TAP_H_
