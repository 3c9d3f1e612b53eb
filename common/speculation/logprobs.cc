#include "common/speculation/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

// log(sum(e^logit)), summed in float64 in the order of the ids.
double LogSumExp(absl::Span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

absl::Status CheckCount(absl::string_view field, std::optional<int32_t> count) {
  if (!count || (*count >= 0 && *count <= kMaxTopLogprobs)) {
    return absl::OkStatus();
  }
  return FieldError(field,
                    absl::StrCat(*count, " is not in 0 .. ", kMaxTopLogprobs));
}

absl::Status BadLogprobs(absl::string_view what) {
  return absl::InternalError(absl::StrCat("logprobs: ", what));
}

}  // namespace

void LogprobRows::Append(absl::Span<const float> logits, TokenId token) {
  ESPALIER_CHECK(top <= std::ssize(logits));
  const double log_sum = LogSumExp(logits);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(logits[id] - log_sum);
  };
  chosen.push_back(logprob(token));
  if (top == 0) return;
  const auto is_ahead = [&](TokenId a, TokenId b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + top, ids.end(), is_ahead);
  for (int32_t i = 0; i < top; ++i) {
    top_tokens.push_back(ids[i]);
    top_logprobs.push_back(logprob(ids[i]));
  }
}

void LogprobRows::Append(const LogprobRows& rows) {
  ESPALIER_CHECK(top == rows.top);
  chosen.insert(chosen.end(), rows.chosen.begin(), rows.chosen.end());
  top_tokens.insert(top_tokens.end(), rows.top_tokens.begin(),
                    rows.top_tokens.end());
  top_logprobs.insert(top_logprobs.end(), rows.top_logprobs.begin(),
                      rows.top_logprobs.end());
}

void LogprobRows::Cut(int64_t size) {
  ESPALIER_CHECK(size <= this->size());
  chosen.resize(size);
  top_tokens.resize(size * top);
  top_logprobs.resize(size * top);
}

absl::Status ValidateLogprobRequest(const LogprobRequest& request) {
  RETURN_IF_ERROR(CheckCount("logprobs", request.emitted));
  return CheckCount("prompt_logprobs", request.prompt);
}

absl::Status CheckPromptLogprobs(int32_t top, int64_t prompt_length) {
  if (prompt_length <= kMaxLogprobs / (top + 1)) return absl::OkStatus();
  return FieldError(
      "prompt_logprobs",
      absl::StrCat(top, " for a prompt of ", prompt_length, " tokens; at most ",
                   kMaxLogprobs / (top + 1), " tokens can have ", "so many"));
}

absl::Status CheckLogprobs(const LogprobRows& rows,
                           std::optional<int32_t> wanted, int64_t size,
                           int64_t vocab_size) {
  const int64_t top = wanted ? std::min<int64_t>(*wanted, vocab_size) : 0;
  if (!wanted) size = 0;
  if (rows.size() != size || rows.top != top ||
      std::ssize(rows.top_tokens) != size * top ||
      std::ssize(rows.top_logprobs) != size * top) {
    return BadLogprobs(absl::StrCat(rows.size(), " tokens with ", rows.top,
                                    " alternatives, expected ", size, " with ",
                                    top));
  }
  if (absl::Status ids = CheckTokens("top_token", rows.top_tokens, vocab_size);
      !ids.ok()) {
    return BadLogprobs(ids.message());
  }
  const auto is_logprob = [](float x) { return x <= 0 && std::isfinite(x); };
  if (std::all_of(rows.chosen.begin(), rows.chosen.end(), is_logprob) &&
      std::all_of(rows.top_logprobs.begin(), rows.top_logprobs.end(),
                  is_logprob)) {
    return absl::OkStatus();
  }
  return BadLogprobs("a number is not the logarithm of a probability");
}

}  // namespace espalier
