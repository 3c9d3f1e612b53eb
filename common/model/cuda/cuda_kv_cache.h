#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_KV_CACHE_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_KV_CACHE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/model/files/model_config.h"
#include "common/model/kv_groups.h"
#include "common/model/native/page_pool.h"
#include "common/model/native/page_table.h"
#include "common/speculation/types.h"

namespace espalier {

// The K/V pages of the sequences of one network on a device, allocated at once
// (layout: cuda/layout.h). A page has the layers of one group (KvLayers). One
// thread.
class CudaKvStore {
 public:
  // In tokens of room, which have the layers of one group.
  struct Room {
    // Whole pages are used, at least one for each group.
    int64_t total_tokens = 0;
    int64_t max_cached_tokens = 0;  // of shared pages that no sequence holds
  };
  // RESOURCE_EXHAUSTED: the device has no room for the pages.
  static absl::StatusOr<std::unique_ptr<CudaKvStore>> Make(
      const ModelConfig& config, const Room& room,
      std::shared_ptr<cuda::ComputeDevice> device);
  static KvGroups GroupsOf(const ModelConfig& config);
  static int64_t TokenBytes(const ModelConfig& config);  // of room

  unsigned char* memory() const { return memory_.data(); }
  int64_t page_bytes() const { return page_bytes_; }
  const PagePool<int32_t>& pages() const { return pages_; }
  PagePools<int32_t> pools() {
    return {.pages = &pages_, .groups = groups_, .texts = &texts_};
  }
  bool caches() const { return caches_; }     // pages that no sequence holds
  void Copy(int32_t from, int32_t to) const;  // a page; queued

 private:
  CudaKvStore(std::shared_ptr<cuda::ComputeDevice> device,
              cuda::DeviceArray<unsigned char> memory, KvGroups groups,
              int64_t page_bytes, const Room& room);

  const std::shared_ptr<cuda::ComputeDevice> device_;
  const cuda::DeviceArray<unsigned char> memory_;
  const KvGroups groups_;
  const int64_t page_bytes_;
  const bool caches_;
  PagePool<int32_t> pages_;
  PagePool<int32_t> texts_;  // no memory
};

// The K/V of one sequence: `length` kept rows, then those of a tree.
class CudaKvCache {
 public:
  explicit CudaKvCache(CudaKvStore* store)
      : store_(*store), table_(store->pools()) {}

  int64_t length() const { return table_.length(); }
  // By group, all of one length: pages by block of positions. Those that were
  // given back are page 0.
  std::vector<absl::Span<const int32_t>> tables() const;
  // Room of this sequence alone and of others as well; see PageTable.
  int64_t own_tokens() const { return table_.own_tokens(); }
  int64_t shared_tokens() const { return table_.shared_tokens(); }

  // Makes room for `tokens` positions. RESOURCE_EXHAUSTED: the pool is full.
  absl::Status Reserve(int64_t tokens) {
    return table_.Reserve(
        tokens, [this](int32_t from, int32_t to) { store_.Copy(from, to); });
  }
  // Keeps so many rows that follow. REQUIRES: room.
  void Advance(int64_t rows) { table_.Advance(rows); }
  // Returns the pages after `length`. REQUIRES: 0 <= length <= length().
  void Truncate(int64_t length) { table_.Truncate(length); }
  // See LanguageModel::Share.
  int64_t Share(absl::Span<const TokenId> text, absl::string_view salt) {
    return table_.Share(text, salt);
  }
  // See PageTable.
  int64_t HeldPrefix(absl::Span<const TokenId> text,
                     absl::string_view salt) const {
    return table_.HeldPrefix(text, salt);
  }

 private:
  CudaKvStore& store_;
  PageTable<int32_t> table_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_KV_CACHE_H_
