#ifndef ESPALIER_COMMON_MODEL_NATIVE_PAGED_KV_CACHE_H_
#define ESPALIER_COMMON_MODEL_NATIVE_PAGED_KV_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/model/files/model_config.h"
#include "common/model/kv_layers.h"
#include "common/model/native/kv_pool.h"
#include "common/model/native/page_pool.h"
#include "common/model/native/page_table.h"
#include "common/nn/huge_page_arena.h"
#include "common/nn/kernels.h"
#include "common/speculation/types.h"

namespace espalier {

// Where the K/V of a model's layers are: in pages of nn::kPageTokens positions
// and one group of layers, of which a page has for every layer and K/V head a
// panel of keys, then one of values (nn::KvPanels).
struct KvPageShape {
  KvLayers layers;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  nn::KvType type = nn::KvType::kFloat32;

  static KvPageShape Of(const ModelConfig& config,
                        nn::KvType type = nn::KvType::kFloat32);

  int64_t panel_floats() const { return nn::KvPanelFloats(type, head_dim); }
  int64_t page_floats() const {
    return layers.per_group * num_kv_heads * 2 * panel_floats();
  }
  int64_t page_bytes() const {
    return page_floats() * static_cast<int64_t>(sizeof(float));
  }
  int64_t key_offset(int64_t layer, int64_t kv_head) const {
    return (layers.places[layer].layer * num_kv_heads + kv_head) * 2 *
           panel_floats();
  }
  int64_t value_offset(int64_t layer, int64_t kv_head) const {
    return key_offset(layer, kv_head) + panel_floats();
  }
  // `page`: of the layer's group.
  nn::KvPanels Panels(float* page, int64_t layer, int64_t kv_head) const {
    return {.type = type,
            .keys = page + key_offset(layer, kv_head),
            .values = page + value_offset(layer, kv_head),
            .head_dim = head_dim};
  }
};

// The pages of the sequences of one model. Memory is allocated when first
// needed and then reused by other sequences. One thread.
class KvPageStore {
 public:
  struct Room {
    int64_t total_tokens = 0;
    // The most tokens in shared pages that no sequence holds; see PagePool.
    int64_t max_cached_tokens = 0;
  };
  // `kernels` lay out the pages.
  KvPageStore(const KvPageShape& shape, const nn::Kernels& kernels,
              const Room& room);

  const KvPageShape& shape() const { return shape_; }
  const nn::Kernels& kernels() const { return kernels_; }
  const KvPool& pool() const { return pages_.room(); }
  const PagePool<float*>& pages() const { return pages_; }
  PagePools<float*> pools() {
    return {.pages = &pages_, .groups = shape_.layers.groups, .texts = &texts_};
  }

 private:
  const KvPageShape shape_;
  const nn::Kernels& kernels_;
  nn::HugePageArena arena_;
  PagePool<float*> pages_;
  PagePool<float*> texts_;  // null pointers
};

// The K/V of one sequence: `length` committed positions, then the rows of the
// last pass.
class PagedKvCache {
 public:
  explicit PagedKvCache(KvPageStore* store)
      : store_(store), table_(store->pools()) {}

  int64_t length() const { return table_.length(); }
  // Room, in whole pages, of this sequence alone and of others as well; see
  // PageTable.
  int64_t own_tokens() const { return table_.own_tokens(); }
  int64_t shared_tokens() const { return table_.shared_tokens(); }
  // Returns the pages of a layer's group, by block of positions; null where
  // they were given back.
  const float* const* pages(int64_t layer) const {
    return table_.pages(store_->shape().layers.places[layer].group).data();
  }

  // Makes room for `tokens` positions. RESOURCE_EXHAUSTED: the pool is full.
  absl::Status Reserve(int64_t tokens);

  struct Entry {
    const float* key = nullptr;    // [head_dim]
    const float* value = nullptr;  // [head_dim]
  };
  // Writes a row of the pass after the prefix. REQUIRES: room. Rows may be
  // written by several threads.
  void WriteRow(int64_t layer, int64_t kv_head, int64_t row,
                const Entry& entry);

  // Moves the given rows of the last pass, ascending, to the end of the prefix
  // and commits them, in all layers.
  void Keep(absl::Span<const int32_t> rows);

  // Commits the first `rows` rows of the last pass, where they are.
  void Advance(int64_t rows) { table_.Advance(rows); }

  // See PageTable.
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
  float* PageOf(int64_t layer, int64_t slot) const {
    return table_.pages(
        store_->shape().layers.places[layer].group)[slot / nn::kPageTokens];
  }
  void CopySlot(int64_t from, int64_t to);

  KvPageStore* const store_;
  PageTable<float*> table_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_PAGED_KV_CACHE_H_
