// Every sampling option with a definition of its own of the distribution that
// it gives a target of four tokens, and passes of that target under it.
#ifndef ESPALIER_TESTS_VERIFIER_SAMPLING_OPTIONS_H_
#define ESPALIER_TESTS_VERIFIER_SAMPLING_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "common/grammar/token_masks.h"
#include "common/model/language_model.h"
#include "common/speculation/logit_adjustments.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/token_tree.h"
#include "lab/sequence_model.h"
#include "tests/testing/scripted_language_model.h"
#include "verifier/distributions/distribution_transform.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// The target's vocabulary, and the tokens of a text after the committed ones
// that it is enumerated for.
inline constexpr int64_t kOptionVocab = 4;
inline constexpr int64_t kOptionDepth = 2;
// The last of the committed tokens, so the root of every tree.
inline constexpr TokenId kOptionRoot = 0;

struct SamplingOption {
  const char* name;
  SamplingParams sampling;
  LogitAdjustments adjustments;
};
void PrintTo(const SamplingOption& option, std::ostream* out);

// Each filter and adjustment alone, and several together.
std::vector<SamplingOption> SamplingOptionCases();

// False: the option has a grammar, and this build has no structured output.
bool CanTest(const SamplingOption& option);

// Returns the target's distributions under the option, by its definition: not
// by the product's code.
TableModel TargetOf(const SamplingOption& option);

// Rounds of a rule over the logits of a pass, as the engine runs them.
class OptionPass {
 public:
  // Borrows both.
  OptionPass(VerificationRule& rule, const SamplingOption& option);

  // Returns the tokens that a round with this tree emits. REQUIRES: the rule
  // supports the tree.
  Tokens Emit(const TokenTree& tree, TokenSampler& sampler);

 private:
  // Runs the pass unless it was the last one.
  void Forward(const TokenTree& tree);

  VerificationRule& rule_;
  const SamplingOption& option_;
  ScriptedLanguageModel model_;
  CacheId cache_;
  DistributionTransform transform_;
  TokenTree tree_;  // of rows_ and masks_
  std::unique_ptr<LogitRows> rows_;
  grammar::TokenMasks masks_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_SAMPLING_OPTIONS_H_
