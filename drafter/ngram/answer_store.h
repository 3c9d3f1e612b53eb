#ifndef ESPALIER_DRAFTER_NGRAM_ANSWER_STORE_H_
#define ESPALIER_DRAFTER_NGRAM_ANSWER_STORE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/types.h"
#include "drafter/ngram/successor_counts.h"
#include "drafter/ngram/suffix_index.h"

namespace espalier::drafter {

// The latest answers of a tenant, and which tokens followed each n-gram in
// them. They are kept in two halves: when one is full, the older half is
// dropped as a whole. So memory is bounded by 4 + 8 * max_length bytes for each
// of max_tokens, twice that while a half's index grows, and no call costs more
// than the tokens that it adds. Not thread-safe.
class AnswerStore {
 public:
  struct Options {
    int64_t max_tokens = 2;   // of all answers that are kept; a power of two
    int64_t max_length = 1;   // of an n-gram
    int64_t max_matches = 1;  // occurrences that are counted, in each half
  };

  explicit AnswerStore(const Options& options);

  // Adds an answer; of a long one, its last max_tokens / 2 - 1 tokens.
  void Add(absl::Span<const TokenId> answer);

  // Returns the largest n so that some answer has the last n tokens of
  // `context`, and a token after them; 0: none.
  int64_t LongestMatch(absl::Span<const TokenId> context) const;
  // Returns the tokens that followed the n-gram. REQUIRES: 1 <= size <=
  // max_length.
  std::vector<SuccessorCount> SuccessorsOf(
      absl::Span<const TokenId> ngram) const;

  // Returns all answers, the oldest first, each with kBetweenAnswers after it.
  std::vector<TokenId> Tokens() const;
  // Adds all answers of a text as Tokens makes it.
  void AddAll(absl::Span<const TokenId> tokens);

  // No token: n-grams do not go on from one answer to the next.
  static constexpr TokenId kBetweenAnswers = -1;

 private:
  struct Half {
    explicit Half(const SuffixIndex::Options& options) : index(options) {}
    std::vector<TokenId> text;
    SuffixIndex index;
  };

  const SuffixIndex::Options half_;
  std::deque<Half> halves_;  // one or two, the older first
};

// Adds the counts of `more` to `counts`.
void AddCounts(absl::Span<const SuccessorCount> more,
               std::vector<SuccessorCount>& counts);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_ANSWER_STORE_H_
