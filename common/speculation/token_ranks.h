// The target's likeliest tokens at rows that it computed anyway, for drafters
// that learn from them.
#ifndef ESPALIER_COMMON_SPECULATION_TOKEN_RANKS_H_
#define ESPALIER_COMMON_SPECULATION_TOKEN_RANKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier {

inline constexpr int32_t kMaxRanksTop = 64;
// Most rows of the prompt that a verification returns; of one message.
inline constexpr int64_t kMaxPromptRanks = 1024;
inline constexpr int64_t kMaxRankRows = 2048;

// Which rows a drafter wants. Constant.
struct RankNeed {
  // Tokens of a row, 0 .. kMaxRanksTop, if the target decodes greedily, and if
  // it samples. Both 0: it wants none.
  int32_t greedy = 0;
  int32_t sampled = 0;
  int32_t prompt_rows = 0;  // of the last positions of a prompt

  bool any() const { return greedy > 0 || sampled > 0; }
  friend bool operator==(const RankNeed&, const RankNeed&) = default;
};

// Which rows a verification is to return: those of its tree, and of so many
// positions before the root if it computes them. top 0: none.
struct RanksRequest {
  int32_t top = 0;
  int32_t prompt_rows = 0;

  friend bool operator==(const RanksRequest&, const RanksRequest&) = default;
};

// Rows in the order in which they were computed. A row is the log-softmax of
// the target's logits after a text, before anything that a request changes in
// them; of the text it has the last two tokens.
struct TokenRanks {
  int32_t top = 0;                     // tokens per row
  std::vector<TokenId> contexts = {};  // [n, 2] the last token second
  std::vector<TokenId> tokens = {};    // [n, top] the likeliest first
  std::vector<float> log_probs = {};   // [n, top] natural

  int64_t size() const { return static_cast<int64_t>(contexts.size()) / 2; }
  bool empty() const { return contexts.empty(); }
  // REQUIRES: 0 <= row < size(), here and below.
  absl::Span<const TokenId> ContextOf(int64_t row) const {
    return absl::MakeConstSpan(contexts).subspan(2 * row, 2);
  }
  absl::Span<const TokenId> TokensOf(int64_t row) const {
    return absl::MakeConstSpan(tokens).subspan(row * top, top);
  }
  absl::Span<const float> LogProbsOf(int64_t row) const {
    return absl::MakeConstSpan(log_probs).subspan(row * top, top);
  }

  // Appends rows. Rows of another `top` replace those that are there.
  void Append(const TokenRanks& rows);
  // Drops the first `count` rows.
  void DropFirst(int64_t count);

  friend bool operator==(const TokenRanks&, const TokenRanks&) = default;
};

// INVALID_ARGUMENT, with a message that begins with `field`: the columns do not
// fit each other, a limit is exceeded, a token is not in the vocabulary, or a
// log-probability is not a number up to 0.
absl::Status CheckRanks(absl::string_view field, const TokenRanks& ranks,
                        int64_t vocab_size);
absl::Status CheckRanksRequest(const RanksRequest& request);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_TOKEN_RANKS_H_
