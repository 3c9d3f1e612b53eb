#include "drafter/ngram/suffix_index.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "common/speculation/prefix_hash.h"

namespace espalier::drafter {
namespace {

constexpr int32_t kNone = -1;
constexpr int64_t kFirstCapacity = 256;
// Other n-grams may share a chain.
constexpr int64_t kStepsPerMatch = 8;

}  // namespace

SuffixIndex::SuffixIndex(const Options& options)
    : options_(options), chains_(options.max_length) {
  ESPALIER_CHECK(options.max_length >= 1 && options.max_matches >= 1);
  ESPALIER_CHECK(std::has_single_bit(static_cast<uint64_t>(options.window)));
  Resize(std::min(kFirstCapacity, options.window));
}

void SuffixIndex::Extend(absl::Span<const TokenId> text) {
  const int64_t length = static_cast<int64_t>(text.size());
  ESPALIER_CHECK(length >= indexed_);
  int64_t capacity = capacity_;
  while (capacity < std::min(length, options_.window)) capacity *= 2;
  if (capacity != capacity_) {
    Resize(capacity);
    indexed_ = 0;
  }
  indexed_ = std::max(indexed_, length - capacity_);
  for (; indexed_ < length; ++indexed_) {
    Insert(text, static_cast<int32_t>(indexed_));
  }
}

std::vector<std::vector<SuccessorCount>> SuffixIndex::Successors(
    absl::Span<const TokenId> text, absl::Span<const TokenId> context) const {
  ESPALIER_CHECK(static_cast<int64_t>(text.size()) == indexed_);
  std::vector<std::vector<SuccessorCount>> by_length;
  const size_t longest = std::min(context.size(), chains_.size());
  uint64_t hash = kEmptyPrefixHash;
  for (size_t n = 1; n <= longest; ++n) {
    hash = ExtendPrefixHash(hash, context[context.size() - n]);
    by_length.push_back(
        Count(text, context.last(n), hash, options_.max_matches));
    if (by_length.back().empty()) {
      by_length.pop_back();
      break;
    }
  }
  return by_length;
}

int64_t SuffixIndex::LongestMatch(absl::Span<const TokenId> text,
                                  absl::Span<const TokenId> context) const {
  ESPALIER_CHECK(static_cast<int64_t>(text.size()) == indexed_);
  const size_t longest = std::min(context.size(), chains_.size());
  uint64_t hash = kEmptyPrefixHash;
  for (size_t n = 1; n <= longest; ++n) {
    hash = ExtendPrefixHash(hash, context[context.size() - n]);
    if (Count(text, context.last(n), hash, /*max_matches=*/1).empty()) {
      return static_cast<int64_t>(n) - 1;
    }
  }
  return static_cast<int64_t>(longest);
}

std::vector<SuccessorCount> SuffixIndex::SuccessorsOf(
    absl::Span<const TokenId> text, absl::Span<const TokenId> ngram) const {
  ESPALIER_CHECK(static_cast<int64_t>(text.size()) == indexed_);
  ESPALIER_CHECK(!ngram.empty() && ngram.size() <= chains_.size());
  uint64_t hash = kEmptyPrefixHash;
  for (size_t n = 1; n <= ngram.size(); ++n) {
    hash = ExtendPrefixHash(hash, ngram[ngram.size() - n]);
  }
  return Count(text, ngram, hash, options_.max_matches);
}

int64_t SuffixIndex::memory_bytes() const {
  size_t entries = 0;
  for (const Chains& chains : chains_) {
    entries += chains.latest.capacity() + chains.previous.capacity();
  }
  return static_cast<int64_t>(entries * sizeof(int32_t));
}

void SuffixIndex::Resize(int64_t capacity) {
  capacity_ = capacity;
  for (Chains& chains : chains_) {
    chains.latest.assign(capacity, kNone);
    chains.previous.assign(capacity, kNone);
  }
}

// Adds text[position] as the successor of the n-grams before it. Hashes run
// backwards from the position, so that one pass makes those of all lengths.
void SuffixIndex::Insert(absl::Span<const TokenId> text, int32_t position) {
  const uint64_t mask = static_cast<uint64_t>(capacity_) - 1;
  uint64_t hash = kEmptyPrefixHash;
  const int64_t longest =
      std::min<int64_t>(position, static_cast<int64_t>(chains_.size()));
  for (int64_t n = 1; n <= longest; ++n) {
    hash = ExtendPrefixHash(hash, text[position - n]);
    Chains& chains = chains_[n - 1];
    int32_t& latest = chains.latest[hash & mask];
    chains.previous[position & mask] = latest;
    latest = position;
  }
}

std::vector<SuccessorCount> SuffixIndex::Count(absl::Span<const TokenId> text,
                                               absl::Span<const TokenId> ngram,
                                               uint64_t hash,
                                               int64_t max_matches) const {
  const uint64_t mask = static_cast<uint64_t>(capacity_) - 1;
  const Chains& chains = chains_[ngram.size() - 1];
  const int64_t oldest = std::max<int64_t>(0, indexed_ - capacity_);
  std::vector<SuccessorCount> counts;
  int64_t matches = 0, steps = 0;
  const int64_t most_steps = kStepsPerMatch * max_matches;
  // An entry of `previous` is valid until its position leaves the window.
  for (int32_t at = chains.latest[hash & mask];
       at >= oldest && matches < max_matches && steps < most_steps;
       at = chains.previous[at & mask], ++steps) {
    if (text.subspan(at - ngram.size(), ngram.size()) != ngram) continue;
    ++matches;
    const TokenId next = text[at];
    const auto seen =
        std::find_if(counts.begin(), counts.end(),
                     [&](const auto& entry) { return entry.token == next; });
    if (seen == counts.end()) {
      counts.push_back({.token = next, .count = 1});
    } else {
      ++seen->count;
    }
  }
  return counts;
}

}  // namespace espalier::drafter
