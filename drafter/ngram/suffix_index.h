#ifndef ESPALIER_DRAFTER_NGRAM_SUFFIX_INDEX_H_
#define ESPALIER_DRAFTER_NGRAM_SUFFIX_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/types.h"
#include "drafter/ngram/successor_counts.h"

namespace espalier::drafter {

// Knows where each n-gram of a growing text occurred, n = 1 .. max_length, and
// so which tokens followed it. It has hash chains over recent positions, as in
// LZ77 compressors, one set of chains for each n. A suffix automaton would be
// the alternative; the chains are better because
//   - a token costs max_length insertions whatever the text (an automaton that
//     must also count occurrences costs O(length) on "aaaa"),
//   - they forget what falls out of the window, so memory is bounded: at most
//     8 * max_length bytes for each token of the window,
//   - a query reads the most recent occurrences first and may stop, and recent
//     text predicts best.
// The caller keeps the text and passes the same text, extended, to every call.
// Not thread-safe.
class SuffixIndex {
 public:
  struct Options {
    int64_t max_length = 1;   // of a context, >= 1
    int64_t max_matches = 1;  // occurrences of a context that are counted
    int64_t window = 1;       // recent tokens that are indexed; a power of two
  };

  explicit SuffixIndex(const Options& options);

  // Indexes the tokens added to the text. O(max_length) per token, amortised.
  // REQUIRES: `text` extends the text of the previous call.
  void Extend(absl::Span<const TokenId> text);

  // [context.size()] entry n - 1: the successors of the most recent occurrences
  // of the last n tokens of `context` in `text`, most recent first. Ends at the
  // first n without an occurrence. REQUIRES: `text` is the one last indexed.
  std::vector<std::vector<SuccessorCount>> Successors(
      absl::Span<const TokenId> text, absl::Span<const TokenId> context) const;

  // Returns the largest n so that the last n tokens of `context` are an n-gram
  // of `text` that a token follows; 0: none. REQUIRES: as Successors.
  int64_t LongestMatch(absl::Span<const TokenId> text,
                       absl::Span<const TokenId> context) const;
  // Returns the successors of one n-gram, 1 <= n <= max_length. REQUIRES: as
  // Successors.
  std::vector<SuccessorCount> SuccessorsOf(
      absl::Span<const TokenId> text, absl::Span<const TokenId> ngram) const;

  int64_t memory_bytes() const;  // allocated for the chains

 private:
  // Positions of the successors of all n-grams of one length, by hash.
  struct Chains {
    std::vector<int32_t> latest;    // [capacity] by hash; kNone if empty
    std::vector<int32_t> previous;  // [capacity] by position, same hash
  };

  void Resize(int64_t capacity);
  void Insert(absl::Span<const TokenId> text, int32_t position);
  // Counts the successors of at most `max_matches` occurrences.
  std::vector<SuccessorCount> Count(absl::Span<const TokenId> text,
                                    absl::Span<const TokenId> ngram,
                                    uint64_t hash, int64_t max_matches) const;

  const Options options_;
  std::vector<Chains> chains_;  // [max_length]
  int64_t capacity_ = 0;        // a power of two, grows up to the window
  int64_t indexed_ = 0;         // indexed tokens of the text
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_SUFFIX_INDEX_H_
