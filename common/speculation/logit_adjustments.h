#ifndef ESPALIER_COMMON_SPECULATION_LOGIT_ADJUSTMENTS_H_
#define ESPALIER_COMMON_SPECULATION_LOGIT_ADJUSTMENTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/speculation/grammar_spec.h"
#include "common/speculation/types.h"

namespace espalier {

// Holds what a request changes in the target's logits before they become a
// distribution. The changes after a text depend on its tokens, so a node of a
// tree has the changes of its own path. The fields are in the order in which
// they apply, which is vLLM's (v1/sample/sampler.py).
struct LogitAdjustments {
  // Tokens of the sequence that are the prompt; the rest is the output.
  int64_t prompt_length = 0;
  // If the other fields would leave no token that it allows, those that forbid
  // tokens do not apply.
  GrammarSpec grammar = {};
  // Sequences of tokens that the output never contains: the last token of each
  // is forbidden after the others.
  std::vector<std::vector<TokenId>> bad_words = {};
  // `early_stops` are forbidden while the output has fewer tokens.
  int64_t min_tokens = 0;
  std::vector<TokenId> early_stops = {};
  // Added to the logits of tokens, -100 .. 100; each token once.
  std::vector<std::pair<TokenId, float>> bias = {};
  // Positive logits of tokens in prompt or output are divided by it, others
  // multiplied. 0.01 .. 100 (CTRL, arXiv 1909.05858, section 4.1).
  float repetition_penalty = 1.0f;
  // Subtracted once for each time that a token is in the output. -2 .. 2.
  float frequency_penalty = 0.0f;
  // Subtracted from the logits of tokens in the output. -2 .. 2.
  float presence_penalty = 0.0f;

  // Returns whether any logit of any text can change.
  bool any() const {
    return grammar.any() || !bad_words.empty() || min_tokens > 0 ||
           !bias.empty() || penalizes();
  }
  bool penalizes() const {
    return repetition_penalty != 1 || frequency_penalty != 0 ||
           presence_penalty != 0;
  }
  friend bool operator==(const LogitAdjustments&,
                         const LogitAdjustments&) = default;
};

// Returns a FieldError (request_errors.h) that names the field of the API and
// its limits. Valid adjustments leave some token allowed after every text.
absl::Status ValidateLogitAdjustments(const LogitAdjustments& adjustments,
                                      int64_t vocab_size);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_LOGIT_ADJUSTMENTS_H_
