#include "verifier/engine/feature_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::verifier {
namespace {

// The bytes of a block's tokens and of its entry in the index.
constexpr int64_t kBytesPerBlock = 512;

bool HasAll(absl::Span<const int32_t> taps, absl::Span<const int32_t> wanted) {
  return std::includes(taps.begin(), taps.end(), wanted.begin(), wanted.end());
}

}  // namespace

int64_t FeatureCache::Features::num_bytes() const {
  return kBytesPerBlock + static_cast<int64_t>(taps.size() * sizeof(int32_t) +
                                               rows.size() * sizeof(uint16_t));
}

// The blocks of a text, held while they are used; then they count as used, the
// first ones last, so that no block is dropped before those after it.
class FeatureCache::Chain {
 public:
  Chain(const Text& text, FeatureCache& cache)
      : text_(text),
        block_tokens_(cache.limits_.block_tokens),
        cache_(cache),
        index_(cache.index_) {}
  ~Chain() {
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      index_.Release(*block);
    }
    cache_.CutToLimit();
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // Returns the block from `position` on, if all before it exist as well; else
  // null. REQUIRES: the positions ascend, and are multiples of a block.
  Index::Block* At(int64_t position) {
    while (Size() <= position) {
      Index::Block* const next = index_.Find(NextName());
      if (next == nullptr) return nullptr;
      index_.Hold(next);
      blocks_.push_back(next);
    }
    return blocks_.back();
  }
  // Returns the same block. Makes it, and those before it, if they do not
  // exist.
  Index::Block* Make(int64_t position) {
    while (At(position) == nullptr) {
      blocks_.push_back(index_.Insert(NextName(), {}));
      cache_.num_bytes_ += blocks_.back()->value.num_bytes();
    }
    return blocks_.back();
  }

 private:
  int64_t Size() const { return std::ssize(blocks_) * block_tokens_; }
  Index::Name NextName() const {
    return {.before = blocks_.empty() ? nullptr : blocks_.back(),
            .salt = text_.salt,
            .tokens = text_.tokens.subspan(Size(), block_tokens_)};
  }

  const Text& text_;
  const int64_t block_tokens_;
  FeatureCache& cache_;
  Index& index_;
  std::vector<Index::Block*> blocks_;
};

void FeatureCache::Extend(const Text& text, FeatureRows& rows) {
  const int64_t size = limits_.block_tokens;
  const int64_t hidden = rows.width / std::ssize(text.taps);
  Chain chain(text, *this);
  for (int64_t begin = rows.end_position() / size * size;
       begin + size <= std::ssize(text.tokens); begin += size) {
    const Index::Block* const block = chain.At(begin);
    if (block == nullptr || !HasAll(block->value.taps, text.taps)) return;
    const Features& held = block->value;
    for (int64_t i = rows.end_position() - begin; i < size; ++i) {
      for (const int32_t tap : text.taps) {
        const int64_t column =
            std::lower_bound(held.taps.begin(), held.taps.end(), tap) -
            held.taps.begin();
        const auto state =
            held.rows.begin() + (i * std::ssize(held.taps) + column) * hidden;
        rows.data.insert(rows.data.end(), state, state + hidden);
      }
    }
  }
}

int64_t FeatureCache::EndAfterExtend(const Text& text, int64_t end) const {
  const int64_t size = limits_.block_tokens;
  const Index::Block* block = nullptr;
  for (int64_t begin = 0; begin + size <= std::ssize(text.tokens);
       begin += size) {
    block = index_.Find({.before = block,
                         .salt = text.salt,
                         .tokens = text.tokens.subspan(begin, size)});
    if (block == nullptr) break;
    if (begin + size <= end) continue;
    if (!HasAll(block->value.taps, text.taps)) break;
    end = begin + size;
  }
  return end;
}

void FeatureCache::Offer(const Text& text, FeatureRows& rows) {
  const int64_t size = limits_.block_tokens;
  ESPALIER_CHECK(rows.end_position() <= std::ssize(text.tokens));
  const int64_t first = (rows.first_position + size - 1) / size * size;
  const int64_t end = rows.end_position() / size * size;
  if (first < end) {
    Chain chain(text, *this);
    for (int64_t begin = first; begin < end; begin += size) {
      Index::Block* const block = chain.Make(begin);
      if (HasAll(block->value.taps, text.taps)) continue;
      const auto states = rows.Rows(begin, size);
      Put({.taps = {text.taps.begin(), text.taps.end()},
           .rows = {states.begin(), states.end()}},
          block);
    }
  }
  rows.CutBefore(end);
}

void FeatureCache::Put(Features features, Index::Block* block) {
  num_bytes_ += features.num_bytes() - block->value.num_bytes();
  block->value = std::move(features);
}

void FeatureCache::CutToLimit() {
  while (num_bytes_ > limits_.max_bytes && index_.num_idle() > 0) {
    num_bytes_ -= index_.EvictOldest().num_bytes();
  }
}

}  // namespace espalier::verifier
