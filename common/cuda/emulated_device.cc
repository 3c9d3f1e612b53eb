#include "common/cuda/emulated_device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/machine_hash.h"
#include "common/base/status_macros.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {

// Launches that are made again.
class EmulatedDevice::Graph final : public KernelGraph {
 public:
  Graph(EmulatedDevice& device, absl::Span<const KernelArgs> launches)
      : device_(device), launches_(launches.begin(), launches.end()) {
    ++device_.graphs_;
  }
  ~Graph() override { --device_.graphs_; }

  void Replay() override {
    for (const KernelArgs& args : launches_) device_.Launch(args);
  }

 private:
  EmulatedDevice& device_;
  const std::vector<KernelArgs> launches_;
};

EmulatedDevice::EmulatedDevice(const Options& options)
    : options_(options), random_(options.seed) {}

EmulatedDevice::~EmulatedDevice() {
  Drain();
  ESPALIER_CHECK(allocated_.empty() && graphs_ == 0);
}

DeviceInfo EmulatedDevice::info() const {
  return {.name = "emulated",
          .id = SharedMemoryHash("emulated"),
          .memory_bytes = options_.memory_bytes,
          .free_bytes = options_.memory_bytes - used_bytes_,
          .resident_blocks = options_.resident_blocks,
          .carries_mail = options_.carries_mail,
          .chains_attend = options_.chains_attend};
}

// Exactly so many bytes, for AddressSanitizer.
absl::StatusOr<std::byte*> EmulatedDevice::Allocate(int64_t bytes,
                                                    Memory kind) {
  const int64_t used = kind == Memory::kHost ? 0 : bytes;
  if (used_bytes_ + used > options_.memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for ", bytes, " bytes on the device: ", used_bytes_, " of ",
        options_.memory_bytes, " are taken"));
  }
  if (kind == Memory::kShared) {
    ASSIGN_OR_RETURN(auto shared, emulation::SharedMemory::Make(bytes));
    std::memset(shared.data(), 0xff, bytes);
    return Keep(std::move(shared), used);
  }
  void* memory = nullptr;
  ESPALIER_CHECK(posix_memalign(&memory, 256, bytes) == 0);
  std::memset(memory, 0xff, bytes);
  auto* const start = static_cast<std::byte*>(memory);
  allocated_[start].used_bytes = used;
  used_bytes_ += used;
  return start;
}

std::byte* EmulatedDevice::Keep(emulation::SharedMemory shared,
                                int64_t used_bytes) {
  std::byte* const start = shared.data();
  allocated_[start] = {.used_bytes = used_bytes, .shared = std::move(shared)};
  used_bytes_ += used_bytes;
  return start;
}

absl::StatusOr<std::string> EmulatedDevice::Export(const std::byte* shared) {
  const auto found = allocated_.find(const_cast<std::byte*>(shared));
  ESPALIER_CHECK(found != allocated_.end() && found->second.shared);
  return found->second.shared->handle();
}

absl::StatusOr<std::byte*> EmulatedDevice::Import(absl::string_view handle,
                                                  int64_t bytes) {
  ASSIGN_OR_RETURN(auto shared, emulation::SharedMemory::Open(handle, bytes));
  return Keep(std::move(shared), 0);
}

void EmulatedDevice::Free(std::byte* memory) {
  Drain();
  const auto found = allocated_.find(memory);
  ESPALIER_CHECK(found != allocated_.end());
  used_bytes_ -= found->second.used_bytes;
  const bool is_shared = found->second.shared.has_value();
  allocated_.erase(found);
  if (!is_shared) std::free(memory);
}

void EmulatedDevice::Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) queue_.emplace_back(CopyWork{to, from, bytes});
}

void EmulatedDevice::Launch(const KernelArgs& args) {
  const EmulatedLauncher launcher([this](const EmulatedLauncher::Shape& shape,
                                         std::function<void()> kernel) {
    const emulation::BlockShape of_block = {
        .kernel = shape.kernel,
        .grid = {shape.grid_x, shape.grid_y},
        .threads = shape.threads,
        .shared_bytes = shape.shared_bytes,
        .seed = random_()};
    if (shape.is_resident) {
      queue_.emplace_back(std::in_place_type<emulation::ResidentGrid>, of_block,
                          std::move(kernel), stacks_);
    } else {
      queue_.emplace_back(std::in_place_type<emulation::Grid>, of_block,
                          std::move(kernel), stacks_);
    }
  });
  LaunchKernel(launcher, args);
}

absl::StatusOr<std::unique_ptr<KernelGraph>> EmulatedDevice::Capture(
    absl::Span<const KernelArgs> launches) {
  return std::make_unique<Graph>(*this, launches);
}

absl::Status EmulatedDevice::Wait(int64_t event) {
  ESPALIER_CHECK(event > 0 && event <= events_);
  Drain();
  return absl::OkStatus();
}

absl::Status EmulatedDevice::WaitForFlag(const uint32_t* flag, uint32_t number,
                                         int64_t event) {
  ESPALIER_CHECK(event > 0 && event <= events_);
  while (*flag != number && Advance()) {
  }
  return absl::OkStatus();
}

// A word is read and written as a whole, as a device does, and in the order of
// the copies: another process may look on.
void EmulatedDevice::CopyNow(const CopyWork& copy) {
  using Word = uint64_t;
  const auto is_word = [](const void* at) {
    return reinterpret_cast<uintptr_t>(at) % sizeof(Word) == 0;
  };
  if (copy.bytes != sizeof(Word) || !is_word(copy.to) || !is_word(copy.from)) {
    std::memcpy(copy.to, copy.from, copy.bytes);
    return;
  }
  auto* const from = static_cast<Word*>(const_cast<void*>(copy.from));
  std::atomic_ref(*static_cast<Word*>(copy.to))
      .store(std::atomic_ref(*from).load());
}

// Copies wait for their turn.
void EmulatedDevice::RunAhead(Work& work) {
  if (auto* const grid = std::get_if<emulation::Grid>(&work)) grid->RunAhead();
  if (auto* const grid = std::get_if<emulation::ResidentGrid>(&work))
    grid->RunAhead();
}

// Lets the work make a step; false: it is done.
bool EmulatedDevice::StepOf(Work& work) {
  if (auto* const grid = std::get_if<emulation::Grid>(&work)) {
    return grid->Advance();
  }
  if (auto* const copy = std::get_if<CopyWork>(&work)) {
    CopyNow(*copy);
  } else {
    std::get<emulation::ResidentGrid>(work).Finish();
  }
  return false;
}

// Lets the queue make a step; false: all is done.
bool EmulatedDevice::Advance() {
  if (queue_.empty()) return false;
  if (!std::exchange(front_begun_, true)) {
    const bool is_kernel = !std::holds_alternative<CopyWork>(queue_.front());
    if (is_kernel && queue_.size() > 1 && random_() % 2 == 0) {
      RunAhead(queue_[1]);
    }
  } else if (!StepOf(queue_.front())) {
    queue_.pop_front();
    front_begun_ = false;
  }
  return true;
}

}  // namespace espalier::cuda
