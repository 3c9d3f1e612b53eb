#include "common/cuda/cuda_device.h"

namespace espalier::cuda {

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenCudaDevice(
    int, const CudaDeviceOptions&) {
  return absl::FailedPreconditionError("this program was built without nvcc");
}

}  // namespace espalier::cuda
