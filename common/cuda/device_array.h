#ifndef ESPALIER_COMMON_CUDA_DEVICE_ARRAY_H_
#define ESPALIER_COMMON_CUDA_DEVICE_ARRAY_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/cuda/compute_device.h"

namespace espalier::cuda {

// Owns an array in a device's memory, or in the host's next to it. Must not
// outlive the device.
template <typename T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // RESOURCE_EXHAUSTED: as Allocate.
  static absl::StatusOr<DeviceArray> Make(ComputeDevice& device, int64_t size,
                                          Memory kind = Memory::kDevice) {
    ASSIGN_OR_RETURN(
        std::byte* const memory,
        device.Allocate(size * static_cast<int64_t>(sizeof(T)), kind));
    return DeviceArray(device, reinterpret_cast<T*>(memory), size);
  }

  // Memory of another process, for reading. FAILED_PRECONDITION: as
  // ComputeDevice::Import.
  static absl::StatusOr<DeviceArray> Import(ComputeDevice& device,
                                            absl::string_view handle,
                                            int64_t size) {
    ASSIGN_OR_RETURN(
        std::byte* const memory,
        device.Import(handle, size * static_cast<int64_t>(sizeof(T))));
    return DeviceArray(device, reinterpret_cast<T*>(memory), size);
  }

  DeviceArray() = default;
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) device_->Free(reinterpret_cast<std::byte*>(data_));
  }

  T* data() const { return data_; }
  int64_t size() const { return size_; }

  // Queued, from the host's memory or the device's. REQUIRES: room.
  void Write(int64_t begin, absl::Span<const T> values) {
    ESPALIER_CHECK(begin + static_cast<int64_t>(values.size()) <= size_);
    device_->Copy(data_ + begin, values.data(),
                  static_cast<int64_t>(values.size() * sizeof(T)));
  }
  void Read(int64_t begin, absl::Span<T> values) const {
    ESPALIER_CHECK(begin + static_cast<int64_t>(values.size()) <= size_);
    device_->Copy(values.data(), data_ + begin,
                  static_cast<int64_t>(values.size() * sizeof(T)));
  }

 private:
  DeviceArray(ComputeDevice& device, T* data, int64_t size)
      : device_(&device), data_(data), size_(size) {}

  ComputeDevice* device_ = nullptr;
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_DEVICE_ARRAY_H_
