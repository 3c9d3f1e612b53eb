#include "common/cuda/open_emulated_device.h"

namespace espalier::cuda {

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenEmulatedDevice() {
  return absl::FailedPreconditionError(
      "this build has no emulated device: it is made with the tests "
      "(-DESPALIER_EMULATION=ON), for x86-64 only");
}

}  // namespace espalier::cuda
