#ifndef ESPALIER_COMMON_MODEL_CUDA_RING_READER_H_
#define ESPALIER_COMMON_MODEL_CUDA_RING_READER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/feature_ring.h"
#include "common/speculation/feature_ring.h"

namespace espalier {

// Reads a verifier's ring on the device that it is on: in another process by
// its handle, in this one directly. Nothing that a message says of a ring is
// taken as true before the ring's own header has been compared. One thread.
class RingReader {
 public:
  // The device must outlive this object.
  explicit RingReader(cuda::ComputeDevice& device) : device_(device) {}

  // The ring of this process, which its handle does not open here.
  void UseOwn(std::shared_ptr<const FeatureRing> ring) {
    own_ = std::move(ring);
  }

  // Opens the ring, unless it is the last one. FAILED_PRECONDITION: it cannot
  // be opened, or is not as it is described. UNAVAILABLE: the device failed.
  absl::Status Open(const FeatureRingInfo& ring);

  // Copies the rows of segments that follow each other to `to`, on this device,
  // and waits. Returns the position from which on they are those of the
  // segments; before it they were overwritten, or are not in the ring. It is
  // the end if none are. UNAVAILABLE: the device failed. REQUIRES: a ring is
  // open, the segments are consecutive, not none, and there is room for their
  // rows.
  absl::StatusOr<int64_t> Read(absl::Span<const RingSegment> segments,
                               int64_t row_bytes, cuda::bf16_t* to);

 private:
  absl::StatusOr<RingHeader> ReadHeader();

  cuda::ComputeDevice& device_;
  std::shared_ptr<const FeatureRing> own_;
  FeatureRingInfo ring_;                  // that is open; id 0: none
  cuda::DeviceArray<std::byte> theirs_;   // of another process
  const std::byte* memory_ = nullptr;     // of ring_
  cuda::DeviceArray<RingHeader> header_;  // of the host, a copy
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_RING_READER_H_
