#ifndef ESPALIER_COMMON_RPC_PEER_STATUS_H_
#define ESPALIER_COMMON_RPC_PEER_STATUS_H_

#include <string>

#include "absl/time/time.h"
#include "common/spec/messages.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace espalier {

enum class PeerState {
  kConnecting,  // being dialled, again after a loss with growing pauses
  kReady,
  kRefused,  // one side turned the other down; tried again now and then
};

struct PeerStatus {
  PeerState state = PeerState::kConnecting;
  std::string reason;  // why it is not ready; empty if it is or nobody knows
};

struct PeerOptions {
  std::string name;                // in metrics and messages
  std::string address;             // "unix:PATH" or "HOST:PORT"
  ModelIdentity model;             // the target as the coordinator knows it
  uint64_t epoch = 0;              // of this run of the coordinator
  prometheus::Registry& registry;  // outlives the endpoint

  absl::Duration min_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(2);
  // A refused peer may be restarted with another model.
  absl::Duration refused_backoff = absl::Seconds(5);
  // For the whole way from dialling to the peer's hello.
  absl::Duration hello_timeout = absl::Seconds(10);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_STATUS_H_
