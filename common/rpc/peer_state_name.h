#ifndef ESPALIER_COMMON_RPC_PEER_STATE_NAME_H_
#define ESPALIER_COMMON_RPC_PEER_STATE_NAME_H_

#include "espalier/v1/inference.pb.h"

namespace espalier {

// For people: "connecting", "ready" or "refused"; "unknown" for other values,
// e.g. of a newer coordinator.
const char* PeerStateName(v1::PeerState state);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_STATE_NAME_H_
