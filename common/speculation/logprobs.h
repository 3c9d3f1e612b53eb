#ifndef ESPALIER_COMMON_SPECULATION_LOGPROBS_H_
#define ESPALIER_COMMON_SPECULATION_LOGPROBS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier {

// Most alternatives per token.
inline constexpr int32_t kMaxTopLogprobs = 20;
// Most numbers of one LogprobRows, so that it fits a message.
inline constexpr int64_t kMaxLogprobs = int64_t{1} << 19;

// Natural log-probabilities of consecutive tokens of a text: the log-softmax of
// the target's logits, before anything that a request changes in them.
struct LogprobRows {
  int32_t top = 0;                       // alternatives per token
  std::vector<float> chosen = {};        // [n] of the tokens of the text
  std::vector<TokenId> top_tokens = {};  // [n, top] the likeliest first
  std::vector<float> top_logprobs = {};  // [n, top]

  int64_t size() const { return static_cast<int64_t>(chosen.size()); }
  // Appends the position of `token` from its row of logits, [vocab]. Equal
  // logits are ordered by id. REQUIRES: top <= vocab; finite logits.
  void Append(absl::Span<const float> logits, TokenId token);
  // Appends positions. REQUIRES: the same `top`.
  void Append(const LogprobRows& rows);
  // Keeps the first `size` positions. REQUIRES: there are so many.
  void Cut(int64_t size);

  friend bool operator==(const LogprobRows&, const LogprobRows&) = default;
};

// Which of them a request wants: alternatives per token; nullopt: nothing.
struct LogprobRequest {
  std::optional<int32_t> emitted = {};
  std::optional<int32_t> prompt = {};  // of the tokens after the first

  friend bool operator==(const LogprobRequest&,
                         const LogprobRequest&) = default;
};

// Returns a FieldError (request_errors.h) that names the field of the API.
absl::Status ValidateLogprobRequest(const LogprobRequest& request);

// Checks that so many log-probabilities fit a message. A FieldError.
absl::Status CheckPromptLogprobs(int32_t top, int64_t prompt_length);

// Checks that the rows are of `size` tokens with `wanted` alternatives each, as
// many as the vocabulary has at most, with ids in it; no rows if nothing is
// wanted. INTERNAL: what is wrong.
absl::Status CheckLogprobs(const LogprobRows& rows,
                           std::optional<int32_t> wanted, int64_t size,
                           int64_t vocab_size);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_LOGPROBS_H_
