// Features on the wire: cut into chunks, each a message of its own, sent before
// the message that they belong to.
#ifndef ESPALIER_COMMON_RPC_FEATURE_CHUNKS_H_
#define ESPALIER_COMMON_RPC_FEATURE_CHUNKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/speculation/features.h"
#include "espalier/v1/types.pb.h"

namespace espalier {

// Largest chunk, unless a single row is larger. gRPC's default limit is 4 MiB.
inline constexpr int64_t kMaxChunkBytes = int64_t{1} << 20;

std::vector<v1::FeatureChunk> ToChunks(const FeatureRows& rows);

// Appends the chunk to `rows`. INVALID_ARGUMENT: it does not follow them, its
// width differs, or its size does not match its rows.
absl::Status AddChunk(const v1::FeatureChunk& chunk, FeatureRows& rows);

// Returns messages that carry one chunk each in `features`.
template <typename Message>
std::vector<Message> ToParts(const FeatureRows& rows) {
  std::vector<Message> parts;
  for (v1::FeatureChunk& chunk : ToChunks(rows)) {
    parts.emplace_back().mutable_features()->Swap(&chunk);
  }
  return parts;
}

template <typename Message>
absl::StatusOr<FeatureRows> FromParts(const std::vector<Message>& parts) {
  FeatureRows rows;
  for (const Message& part : parts) {
    RETURN_IF_ERROR(AddChunk(part.features(), rows));
  }
  return rows;
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_FEATURE_CHUNKS_H_
