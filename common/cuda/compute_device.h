#ifndef ESPALIER_COMMON_CUDA_COMPUTE_DEVICE_H_
#define ESPALIER_COMMON_CUDA_COMPUTE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {

struct DeviceInfo {
  std::string name;
  // This id is the same in processes that can open each other's memory on it;
  // not 0.
  uint64_t id = 0;
  int64_t memory_bytes = 0;  // of the device
  int64_t free_bytes = 0;    // of these, when this was asked
  // Blocks of a kernel that stays which are on the device at once, one on each
  // multiprocessor; 0: it is not to run such kernels.
  int resident_blocks = 0;
  bool carries_mail = false;   // kernels reach kHost memory (MailArgs)
  bool chains_attend = false;  // a layer's attention may run in its chain
};

enum class Memory {
  kDevice,  // for kernels; starts as anything
  kHost,    // the host's, from where and to where copies are fast
  kShared,  // as kDevice; other processes may open it
};

// A queue of kernels.
class KernelQueue {
 public:
  virtual ~KernelQueue() = default;
  // Each kernel reads what those before it wrote.
  virtual void Launch(const KernelArgs& args) = 0;
};

// Kernels with their arguments that are queued all at once, as often as wanted.
// Must not outlive its device. What was queued of it outlives it. One thread.
class KernelGraph {
 public:
  virtual ~KernelGraph() = default;
  virtual void Replay() = 0;
};

// A device that runs kernels, or its emulation: memory, and one queue of work
// that is done in its order. One thread.
//
// Nothing in the queue fails by itself: Wait says what went wrong, and goes on
// saying so, as a device that failed is lost to its process.
class ComputeDevice : public KernelQueue {
 public:
  virtual DeviceInfo info() const = 0;

  // RESOURCE_EXHAUSTED: there is no room. What is queued before Free may still
  // use the memory.
  virtual absl::StatusOr<std::byte*> Allocate(int64_t bytes, Memory kind) = 0;
  virtual void Free(std::byte* memory) = 0;

  // Returns a handle by which another process opens kShared memory.
  // FAILED_PRECONDITION: it cannot be opened on this machine.
  virtual absl::StatusOr<std::string> Export(const std::byte* shared) = 0;
  // Memory that another process exported, for reading. It is there until Free,
  // even if that process ends. `bytes`: its size at least. FAILED_PRECONDITION:
  // it cannot be opened here.
  virtual absl::StatusOr<std::byte*> Import(absl::string_view handle,
                                            int64_t bytes) = 0;

  // Queued. Host memory has to stay as it is until an event after the copy.
  virtual void Copy(void* to, const void* from, int64_t bytes) = 0;

  // Runs nothing. Each kernel must have been launched before, with whatever
  // arguments. RESOURCE_EXHAUSTED, INTERNAL: the device makes no such graph,
  // and goes on.
  virtual absl::StatusOr<std::unique_ptr<KernelGraph>> Capture(
      absl::Span<const KernelArgs> launches) = 0;

  // Returns a point in the queue. Until all that was queued before it is done:
  // UNAVAILABLE: the device failed.
  virtual int64_t Record() = 0;
  virtual absl::Status Wait(int64_t event) = 0;
  // As Wait, of an event that follows a kernel which raises `flag`, in kHost
  // memory, to `number`: looks at the flag for a millisecond first, which
  // shows sooner that all is done.
  virtual absl::Status WaitForFlag(const uint32_t* flag, uint32_t number,
                                   int64_t event) = 0;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_COMPUTE_DEVICE_H_
