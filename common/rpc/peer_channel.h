#ifndef ESPALIER_COMMON_RPC_PEER_CHANNEL_H_
#define ESPALIER_COMMON_RPC_PEER_CHANNEL_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"

namespace espalier {

// Largest message either way; validation has tighter limits of its own.
inline constexpr int kMaxMessageBytes = 64 << 20;

// A channel of its own to "unix:PATH" or "HOST:PORT", with keepalive: a peer
// whose machine is gone is noticed within 25 s.
std::shared_ptr<grpc::Channel> NewPeerChannel(const std::string& address);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_CHANNEL_H_
