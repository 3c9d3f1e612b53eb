#ifndef ESPALIER_COMMON_SPECULATION_PREFIX_HASH_H_
#define ESPALIER_COMMON_SPECULATION_PREFIX_HASH_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier {

inline constexpr uint64_t kEmptyPrefixHash = 0x9e3779b97f4a7c15;

// Rolling hash of committed tokens: extends the hash of a prefix by one token.
// Detects peers that are out of step; no protection against an adversary.
inline uint64_t ExtendPrefixHash(uint64_t hash, TokenId token) {
  uint64_t x = hash ^ (static_cast<uint64_t>(token) + 0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline uint64_t PrefixHash(absl::Span<const TokenId> tokens) {
  uint64_t hash = kEmptyPrefixHash;
  for (TokenId token : tokens) hash = ExtendPrefixHash(hash, token);
  return hash;
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_PREFIX_HASH_H_
