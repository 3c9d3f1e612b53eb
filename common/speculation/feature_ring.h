// Features that stay in the memory of the verifier's device, for drafters whose
// networks are there: a ring that the verifier writes and they read.
#ifndef ESPALIER_COMMON_SPECULATION_FEATURE_RING_H_
#define ESPALIER_COMMON_SPECULATION_FEATURE_RING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace espalier {

inline constexpr size_t kMaxRingHandleBytes = 256;
// Most segments of one contract that a message has, or that are remembered.
inline constexpr int64_t kMaxRingSegments = 4096;
inline constexpr int64_t kMaxRingBytes = int64_t{1} << 40;
// More than is ever written.
inline constexpr uint64_t kMaxRingOffset = uint64_t{1} << 62;

// Names a ring, and says by what it is opened.
struct FeatureRingInfo {
  uint64_t id = 0;          // sampled at random when it is made; 0: no ring
  uint64_t device_id = 0;   // of its device: cuda::DeviceInfo::id
  int64_t data_bytes = 0;   // multiple of 256
  std::string handle = {};  // of its memory; empty: its process reads it alone

  // Returns whether a drafter that puts features on that device can read it.
  bool ReachedFrom(uint64_t drafters_device_id) const {
    return id != 0 && device_id != 0 && device_id == drafters_device_id;
  }
  friend bool operator==(const FeatureRingInfo&,
                         const FeatureRingInfo&) = default;
};

// Features of consecutive positions in a ring, bf16, [num_rows, taps, hidden].
struct RingSegment {
  int64_t first_position = 0;
  int64_t num_rows = 0;
  uint64_t offset = 0;  // bytes of the ring that were written or skipped before

  int64_t end_position() const { return first_position + num_rows; }
  friend bool operator==(const RingSegment&, const RingSegment&) = default;
};

// A contract's taps, and where its features are: segments that follow each
// other.
struct StoredContract {
  std::vector<int32_t> taps = {};
  std::vector<RingSegment> segments = {};
};

// Describes what a verification left in its ring: of each contract, in the
// order of the request (FeatureRequest::store), segments that follow each
// other.
struct StoredSegments {
  uint64_t ring_id = 0;  // 0: nothing
  std::vector<std::vector<RingSegment>> contracts = {};

  friend bool operator==(const StoredSegments&,
                         const StoredSegments&) = default;
};

// Describes what a drafter is to read.
struct StoredFeatures {
  FeatureRingInfo ring = {};
  std::vector<RingSegment> segments = {};  // follow each other

  bool empty() const { return segments.empty(); }
  // REQUIRES: not empty().
  int64_t first_position() const { return segments.front().first_position; }
  int64_t end_position() const { return segments.back().end_position(); }
  friend bool operator==(const StoredFeatures&,
                         const StoredFeatures&) = default;
};

// Appends a segment in place of those at its positions and after them, and, if
// there is a gap before it, of all. The first give way beyond kMaxRingSegments.
void AppendSegment(RingSegment segment, std::vector<RingSegment>& segments);

// Returns the segments' rows from `position` on. `row_bytes`: of a position.
std::vector<RingSegment> SegmentsFrom(int64_t position, int64_t row_bytes,
                                      absl::Span<const RingSegment> segments);

// Returns whether each has rows and begins where the one before ends.
bool AreConsecutive(absl::Span<const RingSegment> segments);

// The beginning of a ring's memory; its data begin at kRingDataStart.
//
// The writer moves `cursor` to the end of a segment before it writes the
// segment, so a reader that finds, after its copy, that the segment's bytes are
// among the `data_bytes` before the cursor has read them unchanged. No party
// waits for the other.
struct RingHeader {
  static constexpr uint64_t kMagic = 0x65737072696e6731;  // "espring1"

  uint64_t magic = kMagic;
  uint64_t id = 0;
  uint64_t data_bytes = 0;
  uint64_t cursor = 0;  // offset
};
inline constexpr int64_t kRingDataStart = 256;
static_assert(sizeof(RingHeader) <= kRingDataStart);

// Returns whether so many bytes at that offset are within the data, in one
// piece.
bool IsInRing(uint64_t offset, int64_t bytes, int64_t data_bytes);
// Returns whether these bytes are written and not overwritten. REQUIRES:
// IsInRing.
bool IsIntact(uint64_t offset, int64_t bytes, int64_t data_bytes,
              uint64_t cursor);
// Returns where the next segment goes: at the cursor, or at the beginning of
// the data if it does not fit before their end. REQUIRES: bytes <= data_bytes.
uint64_t NextOffset(uint64_t cursor, int64_t bytes, int64_t data_bytes);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_FEATURE_RING_H_
