#include "common/model/cuda/cuda_kv_cache.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"

namespace espalier {

int64_t CudaKvStore::TokenBytes(const ModelConfig& config) {
  constexpr int64_t kNumberBytes = 2;
  return config.num_layers * config.num_kv_heads * 2 * config.head_dim *
         kNumberBytes;
}

absl::StatusOr<std::unique_ptr<CudaKvStore>> CudaKvStore::Make(
    const ModelConfig& config, const Room& room,
    std::shared_ptr<cuda::ComputeDevice> device) {
  const int64_t page_bytes = TokenBytes(config) * cuda::kPagePositions;
  const int64_t pages =
      std::max<int64_t>(1, room.total_tokens / cuda::kPagePositions);
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
