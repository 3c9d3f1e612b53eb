#ifndef ESPALIER_COMMON_CUDA_EMULATION_SHARED_MEMORY_H_
#define ESPALIER_COMMON_CUDA_EMULATION_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier::cuda::emulation {

// Memory of this machine that other processes of the user can map by its
// handle, "PID/DESCRIPTOR", as long as its maker lives; mapped, it stays.
class SharedMemory {
 public:
  // RESOURCE_EXHAUSTED: no room.
  static absl::StatusOr<SharedMemory> Make(int64_t bytes);
  // Opens the memory for reading. FAILED_PRECONDITION: there is no such memory,
  // or it is smaller.
  static absl::StatusOr<SharedMemory> Open(absl::string_view handle,
                                           int64_t bytes);

  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  std::string handle() const;

 private:
  SharedMemory() = default;

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace espalier::cuda::emulation

#endif  // ESPALIER_COMMON_CUDA_EMULATION_SHARED_MEMORY_H_
