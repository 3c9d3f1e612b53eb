#include "common/cuda/open_emulated_device.h"

#include "common/cuda/emulated_device.h"

namespace espalier::cuda {

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenEmulatedDevice() {
  return std::make_unique<EmulatedDevice>(
      EmulatedDevice::Options{.seed = 1, .memory_bytes = int64_t{512} << 20});
}

}  // namespace espalier::cuda
