#ifndef ESPALIER_COMMON_MODEL_CUDA_FEATURE_RING_H_
#define ESPALIER_COMMON_MODEL_CUDA_FEATURE_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/mailbox.h"
#include "common/speculation/feature_ring.h"

namespace espalier {

// The verifier's ring of features (see RingHeader). Its model puts in the rows
// that it keeps, in the form that each contract wants; each segment takes the
// place of the oldest. It has a queue of its own, and waits for it: what a
// segment names is written. One thread; any may read info() and memory().
class FeatureRing {
 public:
  // `data_bytes` is rounded down to a multiple of 256. RESOURCE_EXHAUSTED: the
  // device has no room. INVALID_ARGUMENT: it is below 256.
  static absl::StatusOr<std::shared_ptr<FeatureRing>> Make(
      std::shared_ptr<cuda::ComputeDevice> device, int64_t data_bytes);
  // Opens a ring on the device of that name, with a queue of its own.
  // data_bytes: 0: a thirty-second of its memory, and 4 GiB at most.
  // FAILED_PRECONDITION: as OpenComputeDevice.
  static absl::StatusOr<std::shared_ptr<FeatureRing>> Open(
      const std::string& device, int64_t data_bytes = 0);

  // Without a handle if no other process can open the memory.
  const FeatureRingInfo& info() const { return info_; }
  // Returns the header, then the data.
  const std::byte* memory() const { return memory_.data(); }

  // Hidden states of a pass that is done, on the device.
  struct Pass {
    const cuda::bf16_t* states = nullptr;  // [points, rows, hidden]
    absl::Span<const int32_t> points;      // taps, ascending
    int rows = 0;
    int hidden = 0;
  };
  // Puts in the rows `kept` of the pass, as those of the positions from
  // `position` on. Returns where they are: in no segment if there is no room.
  // UNAVAILABLE: the device failed. REQUIRES: the pass has all taps.
  absl::StatusOr<std::vector<RingSegment>> Put(absl::Span<const int32_t> taps,
                                               const Pass& pass,
                                               absl::Span<const int32_t> kept,
                                               int64_t position);
  // Puts rows of the host, [positions, width], in several segments.
  absl::StatusOr<std::vector<RingSegment>> PutRows(
      absl::Span<const uint16_t> rows, int64_t width, int64_t position);

 private:
  FeatureRing(std::shared_ptr<cuda::ComputeDevice> device,
              cuda::DeviceArray<std::byte> memory,
              cuda::DeviceArray<RingHeader> header, FeatureRingInfo info);

  absl::Status WriteHeader();
  // Queues what writes `rows` rows to where they go, and waits for it.
  absl::StatusOr<std::vector<RingSegment>> Append(
      int64_t position, int64_t rows, int64_t row_bytes,
      absl::FunctionRef<absl::Status(std::byte* to)> write);
  absl::Status Gather(const Pass& pass, absl::Span<const int32_t> taps,
                      absl::Span<const int32_t> kept, cuda::bf16_t* to);

  const std::shared_ptr<cuda::ComputeDevice> device_;  // outlives what follows
  const cuda::DeviceArray<std::byte> memory_;
  const cuda::DeviceArray<RingHeader> header_;  // of the host, to copy from
  Mailbox requests_;
  const FeatureRingInfo info_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_FEATURE_RING_H_
