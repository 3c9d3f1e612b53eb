#include "common/rpc/feature_chunks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire's order of bytes");

constexpr int64_t kNumberBytes = sizeof(uint16_t);

}  // namespace

std::vector<v1::FeatureChunk> ToChunks(const FeatureRows& rows) {
  std::vector<v1::FeatureChunk> chunks;
  if (rows.empty()) return chunks;
  const int64_t chunk_rows =
      std::max<int64_t>(1, kMaxChunkBytes / (rows.width * kNumberBytes));
  for (int64_t first = 0; first < rows.num_rows(); first += chunk_rows) {
    const int64_t size = std::min(chunk_rows, rows.num_rows() - first);
    v1::FeatureChunk& chunk = chunks.emplace_back();
    chunk.set_first_position(
        static_cast<uint64_t>(rows.first_position + first));
    chunk.set_num_rows(static_cast<uint32_t>(size));
    chunk.set_type(v1::FEATURE_TYPE_BF16);
    chunk.set_data(rows.data.data() + first * rows.width,
                   size * rows.width * kNumberBytes);
  }
  return chunks;
}

absl::Status AddChunk(const v1::FeatureChunk& chunk, FeatureRows& rows) {
  const uint64_t bytes = chunk.data().size();
  const uint64_t row_bytes =
      chunk.num_rows() == 0 ? 0 : bytes / chunk.num_rows();
  if (chunk.type() != v1::FEATURE_TYPE_BF16 || row_bytes == 0 ||
      row_bytes % kNumberBytes != 0 || row_bytes * chunk.num_rows() != bytes ||
      chunk.first_position() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "features: ", bytes, " bytes of type ", chunk.type(), " for ",
        chunk.num_rows(), " rows from ", chunk.first_position(), " on"));
  }
  const FeatureRows part = {
      .first_position = static_cast<int64_t>(chunk.first_position()),
      .width = static_cast<int64_t>(row_bytes) / kNumberBytes};
  if (rows.empty()) {
    rows = part;
  } else if (part.first_position != rows.end_position() ||
             part.width != rows.width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "features: ", part.width, " numbers at ", part.first_position,
        " after rows of ", rows.width, " that end at ", rows.end_position()));
  }
  const size_t size = rows.data.size();
  rows.data.resize(size + bytes / kNumberBytes);
  std::memcpy(&rows.data[size], chunk.data().data(), bytes);
  return absl::OkStatus();
}

}  // namespace espalier
