#include "common/speculation/token_ranks.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

// Rounding of the log-softmax of a certain token.
constexpr float kMaxLogProb = 1e-3f;

}  // namespace

void TokenRanks::Append(const TokenRanks& rows) {
  if (rows.empty()) return;
  if (rows.top != top) *this = {.top = rows.top};
  contexts.insert(contexts.end(), rows.contexts.begin(), rows.contexts.end());
  tokens.insert(tokens.end(), rows.tokens.begin(), rows.tokens.end());
  log_probs.insert(log_probs.end(), rows.log_probs.begin(),
                   rows.log_probs.end());
}

void TokenRanks::DropFirst(int64_t count) {
  contexts.erase(contexts.begin(), contexts.begin() + 2 * count);
  tokens.erase(tokens.begin(), tokens.begin() + count * top);
  log_probs.erase(log_probs.begin(), log_probs.begin() + count * top);
}

absl::Status CheckRanks(absl::string_view field, const TokenRanks& ranks,
                        int64_t vocab_size) {
  const auto columns_are = [&](size_t rows) {
    return ranks.contexts.size() == 2 * rows &&
           ranks.tokens.size() == rows * ranks.top &&
           ranks.log_probs.size() == ranks.tokens.size();
  };
  if (ranks.top < 0 || ranks.top > kMaxRanksTop ||
      ranks.size() > kMaxRankRows) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", ranks.size(), " rows of ", ranks.top,
                     " tokens; at most ", kMaxRankRows, " of ", kMaxRanksTop));
  }
  if (!columns_are(ranks.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": ", ranks.contexts.size(), " tokens of contexts, ",
        ranks.tokens.size(), " tokens and ", ranks.log_probs.size(),
        " log-probabilities are not rows of ", ranks.top));
  }
  RETURN_IF_ERROR(CheckTokens(absl::StrCat(field, ".contexts"), ranks.contexts,
                              vocab_size));
  RETURN_IF_ERROR(
      CheckTokens(absl::StrCat(field, ".tokens"), ranks.tokens, vocab_size));
  for (float log_prob : ranks.log_probs) {
    if (!(log_prob <= kMaxLogProb)) {  // NaN fails, too
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": log-probability ", log_prob));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRanksRequest(const RanksRequest& request) {
  if (request.top < 0 || request.top > kMaxRanksTop) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ranks.top ", request.top, " is not in 0 .. ", kMaxRanksTop));
  }
  if (request.prompt_rows < 0 || request.prompt_rows > kMaxPromptRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks.prompt_rows ", request.prompt_rows,
                     " is not in 0 .. ", kMaxPromptRanks));
  }
  return absl::OkStatus();
}

}  // namespace espalier
