#include "common/speculation/feature_ring.h"

#include <algorithm>

namespace espalier {

void AppendSegment(RingSegment segment, std::vector<RingSegment>& segments) {
  while (!segments.empty() &&
         segments.back().first_position >= segment.first_position) {
    segments.pop_back();
  }
  if (!segments.empty()) {
    RingSegment& last = segments.back();
    if (last.end_position() < segment.first_position) {
      segments.clear();
    } else {
      last.num_rows = segment.first_position - last.first_position;
    }
  }
  segments.push_back(segment);
  // More than needed, so that the next one does not cause another cut.
  if (std::ssize(segments) > kMaxRingSegments) {
    segments.erase(segments.begin(), segments.begin() + kMaxRingSegments / 8);
  }
}

std::vector<RingSegment> SegmentsFrom(int64_t position, int64_t row_bytes,
                                      absl::Span<const RingSegment> segments) {
  const auto first = std::partition_point(
      segments.begin(), segments.end(), [position](const RingSegment& segment) {
        return segment.end_position() <= position;
      });
  std::vector<RingSegment> rest(first, segments.end());
  if (!rest.empty() && rest.front().first_position < position) {
    const int64_t skipped = position - rest.front().first_position;
    rest.front().first_position = position;
    rest.front().num_rows -= skipped;
    rest.front().offset += skipped * row_bytes;
  }
  return rest;
}

bool AreConsecutive(absl::Span<const RingSegment> segments) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const RingSegment& segment = segments[i];
    if (segment.first_position < 0 || segment.num_rows < 1 ||
        (i > 0 && segment.first_position != segments[i - 1].end_position())) {
      return false;
    }
  }
  return true;
}

bool IsInRing(uint64_t offset, int64_t bytes, int64_t data_bytes) {
  if (bytes < 1 || bytes > data_bytes || offset > kMaxRingOffset) return false;
  const int64_t place = static_cast<int64_t>(offset % data_bytes);
  return place <= data_bytes - bytes;
}

bool IsIntact(uint64_t offset, int64_t bytes, int64_t data_bytes,
              uint64_t cursor) {
  return offset + bytes <= cursor && cursor <= offset + data_bytes;
}

uint64_t NextOffset(uint64_t cursor, int64_t bytes, int64_t data_bytes) {
  const int64_t left = data_bytes - static_cast<int64_t>(cursor % data_bytes);
  return bytes <= left ? cursor : cursor + left;
}

}  // namespace espalier
