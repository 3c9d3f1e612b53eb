#include "common/model/cuda/cuda_kv_cache.h"

#include <algorithm>
#include <limits>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/kv_layers.h"

namespace espalier {

KvGroups CudaKvStore::GroupsOf(const ModelConfig& config) {
  return KvLayers::Of(config, cuda::kPagePositions).groups;
}

int64_t CudaKvStore::TokenBytes(const ModelConfig& config) {
  constexpr int64_t kNumberBytes = 2;
  return KvLayers::Of(config, cuda::kPagePositions).per_group *
         config.num_kv_heads * 2 * config.head_dim * kNumberBytes;
}

absl::StatusOr<std::unique_ptr<CudaKvStore>> CudaKvStore::Make(
    const ModelConfig& config, const Room& room,
    std::shared_ptr<cuda::ComputeDevice> device) {
  const int64_t page_bytes = TokenBytes(config) * cuda::kPagePositions;
  const KvGroups groups = GroupsOf(config);
  const int64_t pages =
      std::max(groups.count(), room.total_tokens / cuda::kPagePositions);
  ASSIGN_OR_RETURN(auto memory, cuda::DeviceArray<unsigned char>::Make(
                                    *device, pages * page_bytes));
  return absl::WrapUnique(
      new CudaKvStore(std::move(device), std::move(memory), groups, page_bytes,
                      {.total_tokens = pages * cuda::kPagePositions,
                       .max_cached_tokens = room.max_cached_tokens}));
}

CudaKvStore::CudaKvStore(std::shared_ptr<cuda::ComputeDevice> device,
                         cuda::DeviceArray<unsigned char> memory,
                         KvGroups groups, int64_t page_bytes, const Room& room)
    : device_(std::move(device)),
      memory_(std::move(memory)),
      groups_(groups),
      page_bytes_(page_bytes),
      caches_(room.max_cached_tokens > 0),
      pages_({.page_tokens = cuda::kPagePositions,
              .total_tokens = room.total_tokens,
              .max_cached_tokens = room.max_cached_tokens,
              .make = [next = int32_t{0}]() mutable { return next++; }}),
      texts_({.page_tokens = cuda::kPagePositions,
              .total_tokens = std::numeric_limits<int64_t>::max() / 2,
              .max_cached_tokens = room.max_cached_tokens,
              .make = [] { return 0; }}) {}

void CudaKvStore::Copy(int32_t from, int32_t to) const {
  device_->Copy(memory_.data() + to * page_bytes_,
                memory_.data() + from * page_bytes_, page_bytes_);
}

std::vector<absl::Span<const int32_t>> CudaKvCache::tables() const {
  std::vector<absl::Span<const int32_t>> tables;
  const int64_t groups = store_.pools().groups.count();
  for (int64_t group = 0; group < groups; ++group) {
    tables.push_back(table_.pages(group));
  }
  return tables;
}

}  // namespace espalier
