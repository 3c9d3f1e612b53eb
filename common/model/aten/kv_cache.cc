#include "common/model/aten/kv_cache.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier {

int64_t KvCache::MissingFor(int64_t tokens) const {
  const int64_t needed =
      (tokens + kBlockTokens - 1) / kBlockTokens * kBlockTokens;
  return std::max<int64_t>(needed - capacity_, 0);
}

absl::Status KvCache::Reserve(int64_t tokens, int64_t& spare) {
  const int64_t missing = MissingFor(tokens);
  if (missing == 0) return absl::OkStatus();
  int64_t more = std::max<int64_t>(capacity_ - missing, 0);
  if (more > spare) more = 0;
  RETURN_IF_ERROR(pool_->Take(missing + more));
  // If libtorch throws, some layers have room that is not counted.
  absl::Cleanup give_back = [&] { pool_->Return(missing + more); };
  const int64_t capacity = capacity_ + missing + more;
  layers_.resize(shape_.num_layers);
  for (Layer& layer : layers_) {
    layer.k = Grown(layer.k, capacity);
    layer.v = Grown(layer.v, capacity);
  }
  std::move(give_back).Cancel();
  capacity_ = capacity;
  spare -= more;
  return absl::OkStatus();
}

at::Tensor KvCache::Grown(const at::Tensor& old, int64_t capacity) const {
  at::Tensor grown =
      at::empty({shape_.num_kv_heads, capacity, shape_.head_dim}, shape_.dtype);
  if (length_ > 0) {
    grown.narrow(/*dim=*/1, 0, length_)
        .copy_(old.narrow(/*dim=*/1, 0, length_));
  }
  return grown;
}

void KvCache::WriteRows(int64_t layer, const at::Tensor& k,
                        const at::Tensor& v) {
  const int64_t rows = k.size(0);
  ESPALIER_CHECK(length_ + rows <= capacity_);
  layers_[layer].k.narrow(/*dim=*/1, length_, rows).copy_(k.transpose(0, 1));
  layers_[layer].v.narrow(/*dim=*/1, length_, rows).copy_(v.transpose(0, 1));
}

void KvCache::Keep(absl::Span<const int32_t> rows) {
  const int64_t size = static_cast<int64_t>(rows.size());
  // Ascending and distinct: rows[i] == i at the end means so everywhere.
  if (size > 0 && rows.back() != size - 1) {
    const at::Tensor from =
        at::tensor(at::ArrayRef<int32_t>(rows.data(), rows.size()),
                   at::dtype(at::kLong))
            .add_(length_);
    for (Layer& layer : layers_) {
      for (at::Tensor* kv : {&layer.k, &layer.v}) {
        // index_select copies first, so source and target may overlap.
        kv->narrow(/*dim=*/1, length_, size)
            .copy_(kv->index_select(/*dim=*/1, from));
      }
    }
  }
  length_ += size;
}

void KvCache::Truncate(int64_t length) {
  ESPALIER_CHECK(0 <= length && length <= length_);
  length_ = length;
}

}  // namespace espalier
