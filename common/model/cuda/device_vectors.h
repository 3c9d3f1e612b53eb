#ifndef ESPALIER_COMMON_MODEL_CUDA_DEVICE_VECTORS_H_
#define ESPALIER_COMMON_MODEL_CUDA_DEVICE_VECTORS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/cuda/device_array.h"

namespace espalier {

// Makes room for `size` elements; what was there is lost. RESOURCE_EXHAUSTED:
// no room on the device.
template <typename T>
absl::Status GrowArray(cuda::ComputeDevice& device, int64_t size,
                       cuda::DeviceArray<T>& array) {
  if (size <= array.size()) return absl::OkStatus();
  array = cuda::DeviceArray<T>();
  ASSIGN_OR_RETURN(array, cuda::DeviceArray<T>::Make(device, size));
  return absl::OkStatus();
}

// Queues a copy of `values`, which have to stay until it is done. The same
// errors.
template <typename T>
absl::Status SendVector(cuda::ComputeDevice& device,
                        const std::vector<T>& values,
                        cuda::DeviceArray<T>& array) {
  const auto size = static_cast<int64_t>(values.size());
  RETURN_IF_ERROR(GrowArray(device, std::max<int64_t>(size, 1), array));
  array.Write(0, values);
  return absl::OkStatus();
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_DEVICE_VECTORS_H_
