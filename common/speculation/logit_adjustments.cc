#include "common/speculation/logit_adjustments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

constexpr size_t kMaxBias = 1024;
constexpr size_t kMaxBadWords = 256;
constexpr size_t kMaxBadWordTokens = 256;

absl::Status CheckBadWords(const std::vector<std::vector<TokenId>>& words,
                           int64_t vocab_size) {
  if (words.size() > kMaxBadWords) {
    return FieldError("bad_words",
                      absl::StrCat(words.size(), " sequences of tokens, limit ",
                                   kMaxBadWords));
  }
  for (const std::vector<TokenId>& word : words) {
    if (word.empty() || word.size() > kMaxBadWordTokens) {
      return FieldError("bad_words", absl::StrCat("a word of ", word.size(),
                                                  " tokens, must be 1 to ",
                                                  kMaxBadWordTokens));
    }
    RETURN_IF_ERROR(CheckTokens("bad_words", word, vocab_size));
  }
  return absl::OkStatus();
}

absl::Status CheckBias(const std::vector<std::pair<TokenId, float>>& bias,
                       int64_t vocab_size) {
  if (bias.size() > kMaxBias) {
    return FieldError("logit_bias",
                      absl::StrCat(bias.size(), " tokens, limit ", kMaxBias));
  }
  std::vector<TokenId> tokens;
  for (const auto& [token, value] : bias) {
    tokens.push_back(token);
    RETURN_IF_ERROR(CheckRange("logit_bias", value, -100, 100));
  }
  RETURN_IF_ERROR(CheckTokens("logit_bias", tokens, vocab_size));
  std::sort(tokens.begin(), tokens.end());
  if (std::adjacent_find(tokens.begin(), tokens.end()) != tokens.end()) {
    return FieldError("logit_bias", "a token is listed twice");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateLogitAdjustments(const LogitAdjustments& adjustments,
                                      int64_t vocab_size) {
  RETURN_IF_ERROR(ValidateGrammarSpec(adjustments.grammar));
  RETURN_IF_ERROR(CheckRange("repetition_penalty",
                             adjustments.repetition_penalty, 0.01f, 100));
  RETURN_IF_ERROR(
      CheckRange("frequency_penalty", adjustments.frequency_penalty, -2, 2));
  RETURN_IF_ERROR(
      CheckRange("presence_penalty", adjustments.presence_penalty, -2, 2));
  RETURN_IF_ERROR(CheckBias(adjustments.bias, vocab_size));
  RETURN_IF_ERROR(CheckBadWords(adjustments.bad_words, vocab_size));
  if (adjustments.min_tokens < 0 || adjustments.prompt_length < 0) {
    return FieldError("min_tokens",
                      absl::StrCat(adjustments.min_tokens, " after ",
                                   adjustments.prompt_length,
                                   " tokens of prompt: one is negative"));
  }
  RETURN_IF_ERROR(
      CheckTokens("min_tokens", adjustments.early_stops, vocab_size));
  // A word forbids at most one token after a text.
  const size_t forbidden =
      adjustments.bad_words.size() + adjustments.early_stops.size();
  if (forbidden >= static_cast<size_t>(vocab_size)) {
    return FieldError("bad_words",
                      absl::StrCat(forbidden,
                                   " tokens could be forbidden at once, with "
                                   "those of min_tokens; the vocabulary has ",
                                   vocab_size));
  }
  return absl::OkStatus();
}

}  // namespace espalier
