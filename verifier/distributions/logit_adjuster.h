#ifndef ESPALIER_VERIFIER_DISTRIBUTIONS_LOGIT_ADJUSTER_H_
#define ESPALIER_VERIFIER_DISTRIBUTIONS_LOGIT_ADJUSTER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/speculation/logit_adjustments.h"
#include "common/speculation/types.h"

namespace espalier::verifier {

// Applies a request's adjustments after the texts of one round: the committed
// tokens and the path to a node. Forbidden tokens get the logit -inf; some
// token never does. Borrows the adjustments; not thread-safe.
class LogitAdjuster {
 public:
  // `committed`: all tokens up to the tree's root, prompt included. O(length).
  LogitAdjuster(const LogitAdjustments& adjustments,
                absl::Span<const TokenId> committed);

  // `path`: the tokens after the root, in order. `logits`: [vocab_size] of the
  // text that ends there. `allowed`: what the grammar allows there (a row of
  // TokenMasks, not all 0); empty: there is no grammar.
  void Apply(absl::Span<const TokenId> path, absl::Span<const uint32_t> allowed,
             absl::Span<float> logits);

 private:
  struct Use {
    bool in_prompt = false;
    int64_t in_output = 0;  // how many times
  };

  // Calls see(token) for every token that is forbidden after output_.
  template <typename See>
  void ForEachForbidden(See see) const;
  void Forbid(absl::Span<float> logits) const;
  void ForbidUnlessAll(absl::Span<float> logits) const;
  void Penalize(absl::Span<float> logits) const;

  const LogitAdjustments& adjustments_;
  absl::flat_hash_map<TokenId, Use> uses_;  // only if it penalizes
  std::vector<TokenId> output_;             // committed, and during Apply path
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_DISTRIBUTIONS_LOGIT_ADJUSTER_H_
