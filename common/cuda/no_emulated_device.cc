#include "common/cuda/open_emulated_device.h"

namespace espalier::cuda {

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenEmulatedDevice() {
  return absl::FailedPreconditionError("the emulation is for x86-64 only");
}

}  // namespace espalier::cuda
