#ifndef ESPALIER_COMMON_RPC_HANDSHAKE_H_
#define ESPALIER_COMMON_RPC_HANDSHAKE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/speculation/messages.h"
#include "espalier/v1/drafter.pb.h"
#include "espalier/v1/verifier.pb.h"

namespace espalier {

// OK if token ids mean the same on both sides. FAILED_PRECONDITION says what
// differs.
absl::Status CheckSameTokens(const ModelIdentity& ours,
                             const ModelIdentity& theirs);

v1::CoordinatorHello MakeCoordinatorHello(const ModelIdentity& model,
                                          uint64_t epoch);

// Called by a peer to check the coordinator's hello. FAILED_PRECONDITION has
// the reason to refuse it.
absl::Status CheckCoordinator(const v1::CoordinatorHello& hello,
                              const ModelIdentity& ours);

// Called by the coordinator to read a peer's hello. FAILED_PRECONDITION has the
// reason not to use the peer.
absl::StatusOr<DrafterInfo> CheckPeer(const v1::DrafterHello& hello,
                                      const ModelIdentity& ours);
absl::StatusOr<VerifierInfo> CheckPeer(const v1::VerifierHello& hello,
                                       const ModelIdentity& ours);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_HANDSHAKE_H_
