#ifndef ESPALIER_COMMON_CUDA_OPEN_EMULATED_DEVICE_H_
#define ESPALIER_COMMON_CUDA_OPEN_EMULATED_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/compute_device.h"

namespace espalier::cuda {

// The emulated device with 512 MiB of memory, for tests and to try what runs on
// a GPU without one: some thousand times slower. FAILED_PRECONDITION: this
// build has none, or the processor is not an x86-64.
absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenEmulatedDevice();

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_OPEN_EMULATED_DEVICE_H_
