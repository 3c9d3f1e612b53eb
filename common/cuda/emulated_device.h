#ifndef ESPALIER_COMMON_CUDA_EMULATED_DEVICE_H_
#define ESPALIER_COMMON_CUDA_EMULATED_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <variant>

#include "common/cuda/chain_shape.h"
#include "common/cuda/compute_device.h"
#include "common/cuda/emulation/grid.h"
#include "common/cuda/emulation/resident_grid.h"
#include "common/cuda/emulation/shared_memory.h"

namespace espalier::cuda {

// Runs kernels on the CPU, for tests: the kernels' own source, by a compiler of
// C++. What a device may do late it does late, and in an order drawn from a
// seed: copies and kernels wait for Wait; kernels begin before those that they
// depend on; memory starts as NaN. A kernel that breaks a rule of the device
// ends the process and says which. No model of speed, of the memory order
// between blocks, or of how tensor cores round.
class EmulatedDevice final : public ComputeDevice {
 public:
  struct Options {
    uint64_t seed = 0;
    int64_t memory_bytes = int64_t{1} << 40;
    int resident_blocks = kRunsChains ? 132 : 0;
    bool carries_mail = seed % 2 == 1;  // tests run both ways
    bool chains_attend = kChainsAttend;
  };
  explicit EmulatedDevice(const Options& options);
  ~EmulatedDevice() override;

  DeviceInfo info() const override;
  absl::StatusOr<std::byte*> Allocate(int64_t bytes, Memory kind) override;
  void Free(std::byte* memory) override;
  absl::StatusOr<std::string> Export(const std::byte* shared) override;
  absl::StatusOr<std::byte*> Import(absl::string_view handle,
                                    int64_t bytes) override;
  void Copy(void* to, const void* from, int64_t bytes) override;
  void Launch(const KernelArgs& args) override;
  absl::StatusOr<std::unique_ptr<KernelGraph>> Capture(
      absl::Span<const KernelArgs> launches) override;
  int64_t Record() override { return ++events_; }
  absl::Status Wait(int64_t event) override;
  // Comes back as soon as the flag is raised: the kernels that raise it and
  // follow are under way.
  absl::Status WaitForFlag(const uint32_t* flag, uint32_t number,
                           int64_t event) override;

 private:
  struct CopyWork {
    void* to = nullptr;
    const void* from = nullptr;
    int64_t bytes = 0;
  };
  struct Allocated {
    int64_t used_bytes = 0;                              // of device memory
    std::optional<emulation::SharedMemory> shared = {};  // not of this heap
  };
  using Work = std::variant<CopyWork, emulation::Grid, emulation::ResidentGrid>;
  class Graph;

  std::byte* Keep(emulation::SharedMemory shared, int64_t used_bytes);
  static void CopyNow(const CopyWork& copy);
  static void RunAhead(Work& work);
  static bool StepOf(Work& work);
  bool Advance();
  void Drain() {
    while (Advance()) {
    }
  }

  const Options options_;
  std::mt19937_64 random_;
  std::map<std::byte*, Allocated> allocated_;
  int64_t used_bytes_ = 0;
  int64_t events_ = 0;
  int graphs_ = 0;  // that are alive
  emulation::StackPool stacks_;
  std::deque<Work> queue_;
  bool front_begun_ = false;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_EMULATED_DEVICE_H_
