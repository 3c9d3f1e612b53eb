#ifndef ESPALIER_COMMON_RPC_PEER_STATUS_H_
#define ESPALIER_COMMON_RPC_PEER_STATUS_H_

#include <string>

#include "absl/time/time.h"
#include "common/rpc/channel_tls.h"
#include "common/rpc/token_file.h"
#include "common/speculation/messages.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace espalier {

enum class PeerState {
  kConnecting,  // not connected; dialled again and again, with growing pauses
  kReady,
  kRefused,  // one side refused the other; dialled again now and then
};

struct PeerStatus {
  PeerState state = PeerState::kConnecting;
  std::string reason = {};  // why it is not ready; empty: ready, or unknown
  bool draining = false;    // it is ready, and about to end
};

struct PeerOptions {
  std::string name;     // in metrics and messages
  std::string address;  // "unix:PATH" or "HOST:PORT"
  ModelIdentity model;  // the target as the coordinator knows it
  std::shared_ptr<const TokenFile> token;  // presented to the peer; null: none
  ChannelTls tls = {};             // the peer's certificate has server_name
  prometheus::Registry& registry;  // outlives the endpoint

  absl::Duration min_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(2);
  // A connection that was ready for less than this is a failure, too: the pause
  // before the next one grows.
  absl::Duration stable_after = absl::Seconds(10);
  // Refused peers are dialled again, as they may restart with another model.
  absl::Duration refused_backoff = absl::Seconds(5);
  // A connection that is idle for this long is pinged.
  absl::Duration keepalive = absl::Seconds(20);
  // It is lost if it does not answer a ping for this long.
  absl::Duration keepalive_timeout = absl::Seconds(5);
  // From dialling to the peer's hello.
  absl::Duration hello_timeout = absl::Seconds(10);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_STATUS_H_
