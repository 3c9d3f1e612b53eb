#include "common/model/cuda/cuda_kv_cache.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"

namespace espalier {

absl::StatusOr<std::unique_ptr<CudaKvStore>> CudaKvStore::Make(
    const ModelConfig& config, const Room& room,
    std::shared_ptr<cuda::ComputeDevice> device) {
  const auto page_bytes = static_cast<int64_t>(
      cuda::PanelOffset(static_cast<uint32_t>(config.head_dim),
                        static_cast<uint32_t>(config.num_kv_heads),
                        static_cast<uint32_t>(config.num_layers), 0, 0));
  constexpr int64_t kShare = 10;  // of the free memory
  const int64_t pages = std::max<int64_t>(
      1, std::min(room.total_tokens / cuda::kPagePositions,
                  device->info().free_bytes / kShare / page_bytes));
  ASSIGN_OR_RETURN(auto memory, cuda::DeviceArray<unsigned char>::Make(
                                    *device, pages * page_bytes));
  return absl::WrapUnique(new CudaKvStore(
      std::move(device), std::move(memory), page_bytes,
      {.page_tokens = cuda::kPagePositions,
       .total_tokens = pages * cuda::kPagePositions,
       .max_cached_tokens = room.max_cached_tokens,
       .make = [next = int32_t{0}]() mutable { return next++; }}));
}

void CudaKvStore::Copy(int32_t from, int32_t to) const {
  device_->Copy(memory_.data() + to * page_bytes_,
                memory_.data() + from * page_bytes_, page_bytes_);
}

}  // namespace espalier
