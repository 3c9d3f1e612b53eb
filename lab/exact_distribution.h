// The exact output distribution of shipped verification rules on small models.
#ifndef ESPALIER_LAB_EXACT_DISTRIBUTION_H_
#define ESPALIER_LAB_EXACT_DISTRIBUTION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "lab/choice_tree.h"
#include "lab/sequence_model.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// [n] sum 1: the normalised probabilities of a distribution.
std::vector<double> Probabilities(const TargetDistribution& distribution);

// A TokenSampler that enumerates every outcome with its probability. The same
// position and distribution give the same token.
class EnumeratingSampler final : public TokenSampler {
 public:
  explicit EnumeratingSampler(ChoiceTree& choices) : choices_(choices) {}
  TokenId SampleToken(int64_t position,
                      const TargetDistribution& distribution) override;
  int64_t SampleIndex(int64_t round, absl::Span<const double> weights) override;
  TokenId SampleOutside(int64_t round,
                        const TargetDistribution& distribution) override;

 private:
  struct Sampled {
    int64_t position;
    std::vector<double> distribution;
    TokenId token;
  };
  ChoiceTree& choices_;
  std::vector<Sampled> sampled_;
};

// The tokens that one round emits, as a function of choices.
using Round = std::function<Tokens(ChoiceTree&)>;

struct ExactDistribution {
  std::vector<double> joint;    // of the first `length` tokens
  double expected_emitted = 0;  // tokens of the round, bonus included
};

// Runs `round` for every outcome and continues its output by plain target
// sampling.
ExactDistribution EnumerateDistribution(const SequenceModel& target,
                                        int64_t length, const Round& round);

// Drafts a tree; the drafter's random choices are taken from the ChoiceTree.
using Drafting = std::function<TokenTree(ChoiceTree&)>;

// Returns the round of a shipped rule, or of the walk if the rule does not
// support the tree. Checks that the accepted path starts at the root. Borrows
// rule and target.
Round RuleRound(VerificationRule& rule, const SequenceModel& target,
                Drafting draft);
// Returns the round of a rule for one tree.
Round RuleRound(VerificationRule& rule, const SequenceModel& target,
                const TokenTree& tree);

// Returns the largest difference between entries. REQUIRES: equal sizes.
double MaxError(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace espalier::verifier

#endif  // ESPALIER_LAB_EXACT_DISTRIBUTION_H_
