#include "coordinator/pool/replica_choice.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/speculation/prefix_hash.h"

namespace espalier::coordinator {
namespace {

// The finalizer of SplitMix64.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t HashBytes(uint64_t hash, absl::string_view bytes) {
  for (const char byte : bytes) {
    hash = Mix(hash ^ static_cast<unsigned char>(byte));
  }
  return hash;
}

}  // namespace

uint64_t ReplicaKey(absl::string_view address) { return HashBytes(1, address); }

uint64_t TextKey(absl::Span<const TokenId> tokens, absl::string_view salt) {
  return HashBytes(
      PrefixHash(tokens.first(std::min(tokens.size(), kRoutedTokens))), salt);
}

size_t ChooseReplica(uint64_t session, absl::Span<const Replica> replicas) {
  ESPALIER_CHECK(!replicas.empty());
  int64_t total = 1;  // with this session
  for (const Replica& replica : replicas) total += replica.load;
  const auto most = static_cast<int64_t>(std::ceil(
      kMaxOverMean * static_cast<double>(total) / std::ssize(replicas)));
  size_t best = replicas.size();
  uint64_t best_rank = 0;
  for (size_t i = 0; i < replicas.size(); ++i) {
    // One of them is at or below the mean, so this leaves one.
    if (replicas[i].load + 1 > most) continue;
    const uint64_t rank = Mix(session ^ replicas[i].key);
    if (best < replicas.size() && rank <= best_rank) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

}  // namespace espalier::coordinator
