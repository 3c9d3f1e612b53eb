#ifndef ESPALIER_VERIFIER_TREE_PASS_H_
#define ESPALIER_VERIFIER_TREE_PASS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/base/executor.h"
#include "common/model/language_model.h"
#include "common/spec/messages.h"
#include "verifier/law_transform.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// Prefixes an error of the target model. RESOURCE_EXHAUSTED (the K/V pool is
// full) stays what it is, all else is INTERNAL: requests were checked before.
absl::Status TargetModelError(const absl::Status& status);

// The heart of a round: one pass of the target over a tree, the rule's walk
// over the logits, compaction of the accepted path. Borrows the model, which it
// shares with the engine; lives on the engine's executor.
class TreePass {
 public:
  struct Input {
    CacheId cache = 0;  // all committed tokens but the root are cached
    const TokenTree& tree;
    const SamplingParams& sampling;
    const VerificationRule& rule;
  };

  // `clock` times the stages.
  TreePass(LanguageModel& model, const Executor& clock)
      : model_(model), clock_(clock) {}

  // Fills path, tokens, near_ties and the timings of its own stages. Caches the
  // root and the accepted path. After an error the cache is as before.
  absl::StatusOr<Verdict> Run(const Input& input);

 private:
  LanguageModel& model_;
  const Executor& clock_;
  LawTransform transform_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_TREE_PASS_H_
