#include "common/rpc/peer_state_name.h"

namespace espalier {

const char* PeerStateName(v1::PeerState state) {
  switch (state) {
    case v1::PEER_STATE_CONNECTING:
      return "connecting";
    case v1::PEER_STATE_READY:
      return "ready";
    case v1::PEER_STATE_REFUSED:
      return "refused";
    default:
      return "unknown";
  }
}

}  // namespace espalier
