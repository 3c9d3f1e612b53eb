#ifndef ESPALIER_COORDINATOR_LOCAL_TEXT_AGREEMENT_H_
#define ESPALIER_COORDINATOR_LOCAL_TEXT_AGREEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/language_model.h"
#include "common/speculation/types.h"

namespace espalier::local {

// How near a model's next-token distributions are to those of a reference,
// summed over positions of a text.
struct TextAgreement {
  int64_t positions = 0;
  double kl = 0;  // nats, of the reference from the model
  int64_t same_top =
      0;           // positions at which both find the same token likeliest
  double nll = 0;  // nats, of the text under the model

  // Takes one position: logits of both, and the token that follows.
  void Add(absl::Span<const float> reference, absl::Span<const float> model,
           TokenId next);

  double mean_kl() const { return kl / static_cast<double>(positions); }
  double top1() const {
    return static_cast<double>(same_top) / static_cast<double>(positions);
  }
  double perplexity() const;
};

// A text in windows of so many tokens, each from an empty context and after
// `prefix` (Tokenizer::prefix).
struct WindowedText {
  absl::Span<const TokenId> tokens;
  absl::Span<const TokenId> prefix = {};
  int64_t window = 0;  // >= 2
};

// Runs both models over `text`, and adds all positions from the last one of the
// prefix on that have a next token in their window. Errors are the models'.
// REQUIRES: the vocabularies are equal.
absl::Status CompareOnText(LanguageModel& reference, LanguageModel& model,
                           const WindowedText& text, TextAgreement& agreement);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_TEXT_AGREEMENT_H_
