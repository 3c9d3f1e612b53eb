#include "common/model/native/paged_kv_cache.h"

#include <algorithm>
#include <limits>

namespace espalier {

KvPageShape KvPageShape::Of(const ModelConfig& config, nn::KvType type) {
  return {.layers = KvLayers::Of(config, nn::kPageTokens),
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .type = type};
}

KvPageStore::KvPageStore(const KvPageShape& shape, const nn::Kernels& kernels,
                         const Room& room)
    : shape_(shape),
      kernels_(kernels),
      pages_({.page_tokens = nn::kPageTokens,
              .total_tokens = room.total_tokens,
              .max_cached_tokens = room.max_cached_tokens,
              .make =
                  [this] {
                    return reinterpret_cast<float*>(
                        arena_.Allocate(shape_.page_bytes()));
                  }}),
      texts_({.page_tokens = nn::kPageTokens,
              .total_tokens = std::numeric_limits<int64_t>::max() / 2,
              .max_cached_tokens = room.max_cached_tokens,
              .make = [] { return nullptr; }}) {}

absl::Status PagedKvCache::Reserve(int64_t tokens) {
  return table_.Reserve(tokens, [this](const float* from, float* to) {
    std::copy_n(from, store_->shape().page_floats(), to);
  });
}

void PagedKvCache::WriteRow(int64_t layer, int64_t kv_head, int64_t row,
                            const Entry& entry) {
  const int64_t slot = length() + row;
  store_->kernels().write_kv(
      store_->shape().Panels(PageOf(layer, slot), layer, kv_head),
      slot % nn::kPageTokens, entry.key, entry.value);
}

void PagedKvCache::CopySlot(int64_t from, int64_t to) {
  const KvPageShape& shape = store_->shape();
  for (int64_t layer = 0; layer < std::ssize(shape.layers.places); ++layer) {
    for (int64_t head = 0; head < shape.num_kv_heads; ++head) {
      store_->kernels().copy_kv(shape.Panels(PageOf(layer, from), layer, head),
                                from % nn::kPageTokens,
                                shape.Panels(PageOf(layer, to), layer, head),
                                to % nn::kPageTokens);
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
