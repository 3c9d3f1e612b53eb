#ifndef ESPALIER_COMMON_MODEL_CUDA_DEVICE_VECTORS_H_
#define ESPALIER_COMMON_MODEL_CUDA_DEVICE_VECTORS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/cuda/device_array.h"

namespace espalier {

// Makes room for `size` elements; what was there is lost. The room is a power
// of two, so an array that is used for pass after pass soon grows no more.
// RESOURCE_EXHAUSTED: no room on the device.
template <typename T>
absl::Status GrowArray(cuda::ComputeDevice& device, int64_t size,
                       cuda::DeviceArray<T>& array) {
  if (size <= array.size()) return absl::OkStatus();
  array = cuda::DeviceArray<T>();
  constexpr uint64_t kMin = 1024;
  const uint64_t room = std::bit_ceil(std::max<uint64_t>(size, kMin));
  ASSIGN_OR_RETURN(
      array, cuda::DeviceArray<T>::Make(device, static_cast<int64_t>(room)));
  return absl::OkStatus();
}

// Returns a new array of these values. RESOURCE_EXHAUSTED: no room on the
// device. UNAVAILABLE: the device failed.
inline absl::StatusOr<cuda::DeviceArray<float>> SendFloats(
    cuda::ComputeDevice& device, const std::vector<float>& values) {
  ASSIGN_OR_RETURN(auto array,
                   cuda::DeviceArray<float>::Make(
                       device, static_cast<int64_t>(values.size())));
  array.Write(0, values);
  RETURN_IF_ERROR(device.Wait(device.Record()));
  return array;
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_DEVICE_VECTORS_H_
