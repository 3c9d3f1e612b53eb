// The exact output law of shipped verification rules on small models.
#ifndef ESPALIER_TESTS_VERIFIER_EXACT_LAW_H_
#define ESPALIER_TESTS_VERIFIER_EXACT_LAW_H_

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"
#include "tests/verifier/choice_tree.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

using Tokens = std::vector<TokenId>;

// The probabilities that a law's log-weights stand for: [n], in double.
std::vector<double> Probabilities(absl::Span<const float> log_weights);

// A language model of a few tokens: a law for every context up to a length.
class TableModel {
 public:
  // A random law for every context; about `zeros` of the entries are 0.
  TableModel(int64_t vocab, int64_t max_context, double zeros,
             std::mt19937_64& random);

  int64_t vocab() const { return vocab_; }
  // [vocab], exactly what the float log-weights of the context stand for.
  absl::Span<const double> Law(absl::Span<const TokenId> context) const;
  absl::Span<const float> LogWeights(absl::Span<const TokenId> context) const;

  // Probability of every sequence of `length` tokens after the empty context,
  // by SequenceIndex.
  std::vector<double> JointLaw(int64_t length) const;
  // Index of a sequence among those of its length.
  int64_t SequenceIndex(absl::Span<const TokenId> tokens) const;

 private:
  size_t Row(absl::Span<const TokenId> context) const;

  int64_t vocab_;
  std::vector<float> log_weights_;  // [contexts, vocab]
  std::vector<double> laws_;        // [contexts, vocab]
};

// A table's laws at the nodes of a tree that hangs below `committed`.
class TableLaws final : public TargetLaws {
 public:
  // Borrows all three.
  TableLaws(const TableModel& model, const Tokens& committed,
            const TokenTree& tree)
      : model_(model), committed_(committed), tree_(tree) {}

  absl::StatusOr<TargetLaw> LawAt(int32_t node) override;

 private:
  const TableModel& model_;
  const Tokens& committed_;
  const TokenTree& tree_;
};

// A Chooser that takes every outcome with its probability. The same position
// and law give the same token.
class EnumeratingChooser final : public Chooser {
 public:
  explicit EnumeratingChooser(ChoiceTree& choices) : choices_(choices) {}
  TokenId Draw(int64_t position, const TargetLaw& law) override;

 private:
  struct Drawn {
    int64_t position;
    std::vector<float> log_weights;
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
ExactLaw EnumerateLaw(const TableModel& target, int64_t length,
                      const Round& round);

// The round of a shipped rule. Checks that the path is a path from the root.
Round RuleRound(const VerificationRule& rule, const TableModel& target,
                const TokenTree& tree);

double MaxError(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_EXACT_LAW_H_
