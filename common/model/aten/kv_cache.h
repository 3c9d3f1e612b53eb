// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_KV_CACHE_H_
#define ESPALIER_COMMON_MODEL_ATEN_KV_CACHE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/native/kv_pool.h"

namespace espalier {

// The K/V of one sequence: `length` committed positions, then the rows of the
// last pass. Every layer's K and V is one contiguous buffer, so attention reads
// them in place. A full buffer doubles where there is room to spare (layer by
// layer, so the peak is one layer above the budget): a token is then copied
// once or twice in the life of a sequence, not per pass.
class KvCache {
 public:
  struct Shape {
    int64_t num_layers = 0;
    int64_t num_kv_heads = 0;
    int64_t head_dim = 0;
    at::ScalarType dtype = at::kFloat;
  };

  static constexpr int64_t kBlockTokens = 64;

  KvCache(const Shape& shape, KvPool* pool) : shape_(shape), pool_(pool) {}
  ~KvCache() { pool_->Return(capacity_); }
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  int64_t length() const { return length_; }
  int64_t held_tokens() const { return capacity_; }

  // Returns the tokens that Reserve must take from the pool.
  int64_t MissingFor(int64_t tokens) const;

  // Makes room for `tokens` positions. Doubles the capacity instead if `spare`
  // allows that; the additional tokens are subtracted from `spare`.
  // RESOURCE_EXHAUSTED: the pool is full. libtorch throws where memory is
  // short. Neither error changes what the cache holds.
  absl::Status Reserve(int64_t tokens, int64_t& spare);

  // Writes the rows of a pass after the prefix. `k`, `v`: [rows, kv_heads,
  // head_dim]. REQUIRES: room.
  void WriteRows(int64_t layer, const at::Tensor& k, const at::Tensor& v);

  // [kv_heads, capacity, head_dim]
  const at::Tensor& k(int64_t layer) const { return layers_[layer].k; }
  const at::Tensor& v(int64_t layer) const { return layers_[layer].v; }

  // Moves the given rows of the last pass, ascending, to the end of the prefix
  // and commits them, in all layers.
  void Keep(absl::Span<const int32_t> rows);

  // REQUIRES: 0 <= length <= length().
  void Truncate(int64_t length);

 private:
  struct Layer {
    at::Tensor k;  // [kv_heads, capacity, head_dim]
    at::Tensor v;
  };

  at::Tensor Grown(const at::Tensor& old, int64_t capacity) const;

  const Shape shape_;
  KvPool* const pool_;
  std::vector<Layer> layers_;
  int64_t length_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_KV_CACHE_H_
