#ifndef ESPALIER_VERIFIER_ENGINE_LOGPROB_CACHE_H_
#define ESPALIER_VERIFIER_ENGINE_LOGPROB_CACHE_H_

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/logprobs.h"
#include "common/speculation/types.h"

namespace espalier::verifier {

// Log-probabilities of prompts that were computed, so that a session that wants
// them can take its K/V from other sequences (LanguageModel::Share) as far as
// they are here: they need the logits of every position otherwise. The least
// recently used prompts are dropped. Not thread-safe.
class LogprobCache {
 public:
  explicit LogprobCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns the log-probabilities of the tokens after the first, with `top`
  // alternatives, as far as a kept prompt of the same salt begins like `text`.
  LogprobRows Find(absl::Span<const TokenId> text, absl::string_view salt,
                   int32_t top);

  // Keeps rows of the tokens after the first.
  void Offer(absl::Span<const TokenId> text, absl::string_view salt,
             const LogprobRows& rows);

  int64_t num_bytes() const { return num_bytes_; }

 private:
  struct Prompt {
    std::vector<TokenId> tokens;
    std::string salt;
    LogprobRows rows;

    int64_t num_bytes() const;
    // Returns the number of rows that are those of `text`, too.
    int64_t NumShared(absl::Span<const TokenId> text) const;
  };
  using Prompts = std::list<Prompt>;

  Prompts::iterator FindLongest(absl::Span<const TokenId> text,
                                absl::string_view salt, int32_t top);

  const int64_t max_bytes_;
  int64_t num_bytes_ = 0;
  Prompts prompts_;  // the most recently used first
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_LOGPROB_CACHE_H_
