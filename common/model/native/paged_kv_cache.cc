#include "common/model/native/paged_kv_cache.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

int64_t PagesFor(int64_t tokens) {
  return (tokens + nn::kPageTokens - 1) / nn::kPageTokens;
}

}  // namespace

absl::Status KvPageStore::Take(int64_t count, std::vector<float*>& pages) {
  RETURN_IF_ERROR(pool_.Check(count * nn::kPageTokens));
  // May throw; until then only the free list may have changed.
  while (static_cast<int64_t>(free_.size()) < count) {
    free_.push_back(reinterpret_cast<float*>(arena_.Allocate(
        shape_.page_floats() * static_cast<int64_t>(sizeof(float)))));
  }
  pages.insert(pages.end(), free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  return pool_.Take(count * nn::kPageTokens);
}

void KvPageStore::Return(absl::Span<float* const> pages) {
  free_.insert(free_.end(), pages.begin(), pages.end());
  pool_.Return(static_cast<int64_t>(pages.size()) * nn::kPageTokens);
}

absl::Status PagedKvCache::Reserve(int64_t tokens) {
  const int64_t missing =
      PagesFor(tokens) - static_cast<int64_t>(pages_.size());
  if (missing <= 0) return absl::OkStatus();
  return store_->Take(missing, pages_);
}

void PagedKvCache::WriteRow(int64_t layer, int64_t kv_head, int64_t row,
                            const Entry& entry) {
  const int64_t slot = length_ + row;
  float* const page = pages_[slot / nn::kPageTokens];
  store_->kernels().write_kv(store_->shape().Panels(page, layer, kv_head),
                             slot % nn::kPageTokens, entry.key, entry.value);
}

void PagedKvCache::CopySlot(int64_t from, int64_t to) {
  const KvPageShape& shape = store_->shape();
  float* const source = pages_[from / nn::kPageTokens];
  float* const target = pages_[to / nn::kPageTokens];
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
    if (rows[i] != to) CopySlot(length_ + rows[i], length_ + to);
  }
  length_ += static_cast<int64_t>(rows.size());
}

void PagedKvCache::Truncate(int64_t length) {
  ESPALIER_CHECK(0 <= length && length <= length_);
  length_ = length;
  const int64_t kept = std::min<int64_t>(PagesFor(length), pages_.size());
  store_->Return(absl::MakeConstSpan(pages_).subspan(kept));
  pages_.resize(kept);
}

}  // namespace espalier
