#ifndef ESPALIER_COORDINATOR_POOL_REPLICA_CHOICE_H_
#define ESPALIER_COORDINATOR_POOL_REPLICA_CHOICE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier::coordinator {

// One of several peers that do the same.
struct Replica {
  uint64_t key = 0;  // ReplicaKey of its address
  int64_t load = 0;  // sessions that it has
};

uint64_t ReplicaKey(absl::string_view address);

// Hash of a text by which sessions that begin alike get the same replica. Texts
// that share the first kRoutedTokens tokens and the salt have the same.
inline constexpr size_t kRoutedTokens = 128;
uint64_t TextKey(absl::Span<const TokenId> tokens, absl::string_view salt);

// How many times the mean load a replica may have.
inline constexpr double kMaxOverMean = 1.25;

// The index of the replica for a session with this key: rendezvous hashing
// (Thaler and Ravishankar, 1998) with bounded loads (Mirrokni and others,
// arXiv 1608.01350). The replicas are ranked by a hash of key and replica. The
// session goes to the first one whose load stays at most kMaxOverMean times the
// mean, rounded up. So a replica that comes or goes moves only its own
// share of the sessions, and a popular text does not fill one replica.
// REQUIRES: there is a replica.
size_t ChooseReplica(uint64_t session, absl::Span<const Replica> replicas);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_POOL_REPLICA_CHOICE_H_
