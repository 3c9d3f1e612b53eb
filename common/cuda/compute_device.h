#ifndef ESPALIER_COMMON_CUDA_COMPUTE_DEVICE_H_
#define ESPALIER_COMMON_CUDA_COMPUTE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {

struct DeviceInfo {
  std::string name;
  int64_t memory_bytes = 0;  // of the device
  int64_t free_bytes = 0;    // of these, when this was asked
};

enum class Memory {
  kDevice,  // for kernels; starts as anything
  kHost,    // the host's, from where and to where copies are fast
};

// A device that runs kernels, or its emulation: memory, and one queue of work
// that is done in its order. One thread.
//
// Nothing in the queue fails by itself: Wait says what went wrong, and goes on
// saying so, as a device that failed is lost to its process.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  virtual DeviceInfo info() const = 0;

  // RESOURCE_EXHAUSTED: there is no room. What is queued before Free may still
  // use the memory.
  virtual absl::StatusOr<std::byte*> Allocate(int64_t bytes, Memory kind) = 0;
  virtual void Free(std::byte* memory) = 0;

  // Queued. Host memory has to stay as it is until an event after the copy.
  virtual void Copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void Launch(const KernelArgs& args) = 0;

  // A point in the queue. Until all that was queued before it is done:
  // UNAVAILABLE: the device failed.
  virtual int64_t Record() = 0;
  virtual absl::Status Wait(int64_t event) = 0;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_COMPUTE_DEVICE_H_
