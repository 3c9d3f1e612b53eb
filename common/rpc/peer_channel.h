#ifndef ESPALIER_COMMON_RPC_PEER_CHANNEL_H_
#define ESPALIER_COMMON_RPC_PEER_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/channel.h"

namespace espalier {

// Largest message between coordinator and peers, in both directions: a context
// of two million tokens, or more than one row of features. Validation has
// tighter limits.
inline constexpr int kMaxPeerMessageBytes = 8 << 20;

// A new channel to "unix:PATH" or "HOST:PORT", not shared with others. A peer
// that is stopped, or whose machine is gone, is noticed within the sum of both
// times.
std::shared_ptr<grpc::Channel> NewPeerChannel(
    const std::string& address, absl::Duration keepalive = absl::Seconds(20),
    absl::Duration keepalive_timeout = absl::Seconds(5));

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_CHANNEL_H_
