#include "coordinator/local/memory_reader.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/open_device.h"
#include "common/nn/huge_page_arena.h"
#include "common/nn/thread_pool.h"

namespace espalier::local {
namespace {

// Sum of all words, read as fast as a core can.
uint64_t ReadAll(absl::Span<const uint64_t> words) {
  constexpr size_t kLine = 8, kAhead = 512;  // words
  uint64_t sums[kLine] = {};
  for (size_t i = 0; i + kLine <= words.size(); i += kLine) {
    __builtin_prefetch(words.data() + i + kAhead, /*rw=*/0, /*locality=*/2);
    for (size_t j = 0; j < kLine; ++j) sums[j] += words[i + j];
  }
  return std::accumulate(std::begin(sums), std::end(sums), uint64_t{0});
}

// More than caches hold. Larger reads read it again: there may be no room for
// the model's size a second time.
constexpr int64_t kMaxBytes = int64_t{1} << 30;

// Memory that several threads read together.
class CpuReader final : public MemoryReader {
 public:
  CpuReader(int64_t bytes, int64_t threads)
      : words_(bytes / kWord),
        block_(nn::AllocateHugePages(std::min(bytes, kMaxBytes))),
        memory_(reinterpret_cast<uint64_t*>(block_.get()),
                std::min(bytes, kMaxBytes) / kWord),
        pool_({.threads = threads}) {
    std::fill(memory_.begin(), memory_.end(), 1);
  }

  absl::Status Read() override {
    const nn::ThreadPool::CallerPin pin(pool_);
    for (int64_t left = words_; left > 0; left -= std::ssize(memory_)) {
      ReadSome(std::min<int64_t>(left, std::ssize(memory_)));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kWord = sizeof(uint64_t);

  void ReadSome(int64_t words) {
    const int64_t share = words / pool_.threads();
    pool_.ParallelFor(pool_.threads(), /*grain=*/1,
                      [&](const nn::ThreadPool::Chunk& chunk) {
                        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
                          total_ += ReadAll(memory_.subspan(i * share, share));
                        }
                      });
  }

  const int64_t words_;
  const nn::HugePageBlock block_;
  const absl::Span<uint64_t> memory_;
  nn::ThreadPool pool_;
  std::atomic<uint64_t> total_ = 0;  // keeps the reads from being dropped
};

class DeviceReader final : public MemoryReader {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryReader>> Make(
      const std::string& name, int64_t bytes) {
    constexpr int64_t kShare = 16, kUnit = 16;
    ASSIGN_OR_RETURN(auto device, OpenComputeDevice(name));
    const int64_t size =
        std::min({kMaxBytes, device->info().free_bytes / kShare, bytes}) /
        kUnit * kUnit;
    ASSIGN_OR_RETURN(auto memory, Array::Make(*device, size));
    ASSIGN_OR_RETURN(
        auto sums, cuda::DeviceArray<uint32_t>::Make(*device, cuda::kReadSums));
    return std::unique_ptr<MemoryReader>(new DeviceReader(
        std::move(device), std::move(memory), std::move(sums), bytes));
  }

  absl::Status Read() override {
    for (int64_t left = bytes_; left > 0; left -= memory_.size()) {
      device_->Launch(cuda::ReadArgs{.memory = memory_.data(),
                                     .bytes = std::min(left, memory_.size()),
                                     .sums = sums_.data()});
    }
    return device_->Wait(device_->Record());
  }

 private:
  using Array = cuda::DeviceArray<unsigned char>;

  DeviceReader(std::unique_ptr<cuda::ComputeDevice> device, Array memory,
               cuda::DeviceArray<uint32_t> sums, int64_t bytes)
      : device_(std::move(device)),
        memory_(std::move(memory)),
        sums_(std::move(sums)),
        bytes_(bytes) {}

  const std::unique_ptr<cuda::ComputeDevice> device_;
  const Array memory_;
  const cuda::DeviceArray<uint32_t> sums_;
  const int64_t bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryReader>> MakeMemoryReader(
    const ModelInfo& model, int64_t bytes) {
  if (model.device != "cpu") return DeviceReader::Make(model.device, bytes);
  return std::make_unique<CpuReader>(bytes, model.threads);
}

}  // namespace espalier::local
