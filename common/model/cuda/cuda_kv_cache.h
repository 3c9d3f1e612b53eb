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
#include "common/model/native/page_pool.h"
#include "common/model/native/page_table.h"
#include "common/spec/types.h"

namespace espalier {

// The K/V pages of the sequences of one network on a device, allocated at once
// (layout: cuda/layout.h). One thread.
class CudaKvStore {
 public:
  struct Room {
    int64_t total_tokens = 0;       // whole pages are used, at least one
    int64_t max_cached_tokens = 0;  // of shared pages that no sequence holds
  };
  // RESOURCE_EXHAUSTED: the device has no room for the pages.
  static absl::StatusOr<std::unique_ptr<CudaKvStore>> Make(
      const ModelConfig& config, const Room& room,
      std::shared_ptr<cuda::ComputeDevice> device);
  static int64_t TokenBytes(const ModelConfig& config);

  unsigned char* memory() const { return memory_.data(); }
  int64_t page_bytes() const { return page_bytes_; }
  PagePool<int32_t>& pages() { return pages_; }
  const PagePool<int32_t>& pages() const { return pages_; }
  bool caches() const { return caches_; }     // pages that no sequence holds
  void Copy(int32_t from, int32_t to) const;  // a page; queued

 private:
  CudaKvStore(std::shared_ptr<cuda::ComputeDevice> device,
              cuda::DeviceArray<unsigned char> memory, int64_t page_bytes,
              PagePool<int32_t>::Options options)
      : device_(std::move(device)),
        memory_(std::move(memory)),
        page_bytes_(page_bytes),
        caches_(options.max_cached_tokens > 0),
        pages_(std::move(options)) {}

  const std::shared_ptr<cuda::ComputeDevice> device_;
  const cuda::DeviceArray<unsigned char> memory_;
  const int64_t page_bytes_;
  const bool caches_;
  PagePool<int32_t> pages_;
};

// The K/V of one sequence: `length` kept rows, then those of a tree.
class CudaKvCache {
 public:
  explicit CudaKvCache(CudaKvStore* store)
      : store_(*store), table_(&store->pages()) {}

  int64_t length() const { return table_.length(); }
  const std::vector<int32_t>& pages() const { return table_.pages(); }
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
