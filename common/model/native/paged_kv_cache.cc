#include "common/model/native/paged_kv_cache.h"

#include <algorithm>

namespace espalier {

KvPageStore::KvPageStore(const KvPageShape& shape, const nn::Kernels& kernels,
                         const Room& room)
    : shape_(shape),
      kernels_(kernels),
      pages_({.page_tokens = nn::kPageTokens,
              .total_tokens = room.total_tokens,
              .max_cached_tokens = room.max_cached_tokens,
              .make = [this] {
                return reinterpret_cast<float*>(arena_.Allocate(page_bytes()));
              }}) {}

absl::Status PagedKvCache::Reserve(int64_t tokens) {
  return table_.Reserve(tokens, [this](const float* from, float* to) {
    std::copy_n(from, store_->shape().page_floats(), to);
  });
}

void PagedKvCache::WriteRow(int64_t layer, int64_t kv_head, int64_t row,
                            const Entry& entry) {
  const int64_t slot = length() + row;
  float* const page = table_.pages()[slot / nn::kPageTokens];
  store_->kernels().write_kv(store_->shape().Panels(page, layer, kv_head),
                             slot % nn::kPageTokens, entry.key, entry.value);
}

void PagedKvCache::CopySlot(int64_t from, int64_t to) {
  const KvPageShape& shape = store_->shape();
  float* const source = table_.pages()[from / nn::kPageTokens];
  float* const target = table_.pages()[to / nn::kPageTokens];
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    for (int64_t head = 0; head < shape.num_kv_heads; ++head) {
      store_->kernels().copy_kv(
          shape.Panels(source, layer, head), from % nn::kPageTokens,
          shape.Panels(target, layer, head), to % nn::kPageTokens);
    }
  }
}

void PagedKvCache::Keep(absl::Span<const int32_t> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    // Ascending, so rows[i] >= i: nothing is overwritten before it is copied.
    const int64_t to = static_cast<int64_t>(i);
    if (rows[i] != to) CopySlot(length() + rows[i], length() + to);
  }
  table_.Advance(std::ssize(rows));
}

}  // namespace espalier
