#include "common/cuda/emulated_device.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {

EmulatedDevice::EmulatedDevice(const Options& options)
    : options_(options), random_(options.seed) {}

EmulatedDevice::~EmulatedDevice() {
  Drain();
  ESPALIER_CHECK(allocated_.empty());
}

DeviceInfo EmulatedDevice::info() const {
  return {.name = "emulated",
          .memory_bytes = options_.memory_bytes,
          .free_bytes = options_.memory_bytes - used_bytes_};
}

// Exactly so many bytes, for AddressSanitizer.
absl::StatusOr<std::byte*> EmulatedDevice::Allocate(int64_t bytes,
                                                    Memory kind) {
  const int64_t used = kind == Memory::kDevice ? bytes : 0;
  if (used_bytes_ + used > options_.memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for ", bytes, " bytes on the device: ", used_bytes_, " of ",
        options_.memory_bytes, " are taken"));
  }
  void* memory = nullptr;
  ESPALIER_CHECK(posix_memalign(&memory, 256, bytes) == 0);
  std::memset(memory, 0xff, bytes);
  auto* const start = static_cast<std::byte*>(memory);
  allocated_[start] = used;
  used_bytes_ += used;
  return start;
}

void EmulatedDevice::Free(std::byte* memory) {
  Drain();
  const auto found = allocated_.find(memory);
  ESPALIER_CHECK(found != allocated_.end());
  used_bytes_ -= found->second;
  allocated_.erase(found);
  std::free(memory);
}

void EmulatedDevice::Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) queue_.emplace_back(CopyWork{to, from, bytes});
}

void EmulatedDevice::Launch(const KernelArgs& args) {
  const EmulatedLauncher launcher([this](const EmulatedLauncher::Shape& shape,
                                         std::function<void()> kernel) {
    queue_.emplace_back(
        std::in_place_type<emulation::Grid>,
        emulation::BlockShape{.kernel = shape.kernel,
                              .grid = {shape.grid_x, shape.grid_y},
                              .threads = shape.threads,
                              .shared_bytes = shape.shared_bytes,
                              .seed = random_()},
        std::move(kernel), stacks_);
  });
  LaunchKernel(launcher, args);
}

absl::Status EmulatedDevice::Wait(int64_t event) {
  ESPALIER_CHECK(event > 0 && event <= events_);
  Drain();
  return absl::OkStatus();
}

void EmulatedDevice::Drain() {
  while (!queue_.empty()) {
    if (auto* const copy = std::get_if<CopyWork>(&queue_.front())) {
      std::memcpy(copy->to, copy->from, copy->bytes);
    } else {
      if (queue_.size() > 1 && random_() % 2 == 0) {
        auto* const next = std::get_if<emulation::Grid>(&queue_[1]);
        if (next != nullptr) next->RunAhead();
      }
      std::get<emulation::Grid>(queue_.front()).Finish();
    }
    queue_.pop_front();
  }
}

}  // namespace espalier::cuda
