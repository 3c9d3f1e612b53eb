#ifndef ESPALIER_COMMON_MODEL_CUDA_OPEN_DEVICE_H_
#define ESPALIER_COMMON_MODEL_CUDA_OPEN_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/cuda/compute_device.h"

namespace espalier {

// Opens the device of that name ("cuda", "cuda:1", "emulated") with a queue of
// its own; all of a process and GPU share one context. FAILED_PRECONDITION:
// there is none, or the name is "cpu".
absl::StatusOr<std::unique_ptr<cuda::ComputeDevice>> OpenComputeDevice(
    const std::string& name);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_OPEN_DEVICE_H_
