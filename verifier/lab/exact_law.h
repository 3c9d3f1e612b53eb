// The exact output law of shipped verification rules on small models.
#ifndef ESPALIER_VERIFIER_LAB_EXACT_LAW_H_
#define ESPALIER_VERIFIER_LAB_EXACT_LAW_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"
#include "verifier/lab/choice_tree.h"
#include "verifier/lab/sequence_model.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// [n] sum 1: what a law means.
std::vector<double> Probabilities(const TargetLaw& law);

// A Chooser that takes every outcome with its probability. The same position
// and law give the same token.
class EnumeratingChooser final : public Chooser {
 public:
  explicit EnumeratingChooser(ChoiceTree& choices) : choices_(choices) {}
  TokenId Draw(int64_t position, const TargetLaw& law) override;
  int64_t Choose(int64_t round, absl::Span<const double> weights) override;
  TokenId DrawOutside(int64_t round, const TargetLaw& law) override;

 private:
  struct Drawn {
    int64_t position;
    std::vector<double> law;
    TokenId token;
  };
  ChoiceTree& choices_;
  std::vector<Drawn> drawn_;
};

// What one round emits, as a function of choices.
using Round = std::function<Tokens(ChoiceTree&)>;

struct ExactLaw {
  std::vector<double> joint;    // of the first `length` tokens
  double expected_emitted = 0;  // tokens of the round, bonus included
};

// Runs `round` for every outcome and continues it by plain target sampling.
ExactLaw EnumerateLaw(const SequenceModel& target, int64_t length,
                      const Round& round);

// Drafts a tree, of which some choices may be the drafter's.
using Drafting = std::function<TokenTree(ChoiceTree&)>;

// The round of a shipped rule, or of the walk where the rule refuses the tree.
// Checks that the path is one from the root. Borrows rule and target.
Round RuleRound(VerificationRule& rule, const SequenceModel& target,
                Drafting draft);
// The same for one tree.
Round RuleRound(VerificationRule& rule, const SequenceModel& target,
                const TokenTree& tree);

// The largest difference between entries. REQUIRES: as many.
double MaxError(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_LAB_EXACT_LAW_H_
