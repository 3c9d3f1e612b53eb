#ifndef ESPALIER_COMMON_MODEL_CUDA_REUSED_ARRAY_H_
#define ESPALIER_COMMON_MODEL_CUDA_REUSED_ARRAY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/cuda/device_array.h"

namespace espalier {

// Memory for what every pass leaves behind: it lies where that of the last pass
// lay, unless somebody still holds that. One thread.
template <typename T>
class ReusedArray {
 public:
  using Held = std::shared_ptr<const cuda::DeviceArray<T>>;

  explicit ReusedArray(std::shared_ptr<cuda::ComputeDevice> device)
      : spare_(std::make_shared<Spare>(Spare{std::move(device)})) {}

  // Returns at least so many elements, of which nothing is known. They may be
  // held for longer than this object lives. RESOURCE_EXHAUSTED: no room on the
  // device.
  absl::StatusOr<Held> Take(int64_t size) {
    cuda::DeviceArray<T> array = std::exchange(spare_->array, {});
    if (array.size() < size) {
      array = cuda::DeviceArray<T>();
      ASSIGN_OR_RETURN(array,
                       cuda::DeviceArray<T>::Make(*spare_->device, size));
    }
    return Held(new cuda::DeviceArray<T>(std::move(array)),
                [spare = spare_](cuda::DeviceArray<T>* held) {
                  // The larger one stays.
                  if (held->size() > spare->array.size()) {
                    std::swap(spare->array, *held);
                  }
                  delete held;
                });
  }

 private:
  struct Spare {
    std::shared_ptr<cuda::ComputeDevice> device;  // outlives the array
    cuda::DeviceArray<T> array = {};
  };

  const std::shared_ptr<Spare> spare_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_REUSED_ARRAY_H_
