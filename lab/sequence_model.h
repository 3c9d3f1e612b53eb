// Small language models with explicit distributions.
#ifndef ESPALIER_LAB_SEQUENCE_MODEL_H_
#define ESPALIER_LAB_SEQUENCE_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

using Tokens = std::vector<TokenId>;

class SequenceModel {
 public:
  virtual ~SequenceModel() = default;
  virtual int64_t vocab() const = 0;
  // [vocab] sum 1: the next token's distribution. Valid for the model's
  // lifetime.
  virtual absl::Span<const double> Distribution(
      absl::Span<const TokenId> context) const = 0;
};

// A distribution for every context up to a length. Uniform until set.
class TableModel final : public SequenceModel {
 public:
  TableModel(int64_t vocab, int64_t max_context);

  // `weights`: [vocab] >= 0, not all 0; need not be normalised.
  void SetDistribution(absl::Span<const TokenId> context,
                       absl::Span<const double> weights);

  int64_t vocab() const override { return vocab_; }
  int64_t num_contexts() const;
  // Returns the index of a context in the breadth-first order of all contexts.
  // REQUIRES: at most max_context tokens.
  int64_t ContextIndex(absl::Span<const TokenId> context) const;
  absl::Span<const double> Distribution(
      absl::Span<const TokenId> context) const override;

 private:
  int64_t vocab_;
  std::vector<double> distributions_;  // [contexts, vocab]
};

// A model's distributions at the nodes of a tree after `committed`.
class ModelDistributions final : public TargetDistributions {
 public:
  // Borrows all three.
  ModelDistributions(const SequenceModel& model, const Tokens& committed,
                     const TokenTree& tree)
      : model_(model), committed_(committed), tree_(tree) {}

  absl::StatusOr<TargetDistribution> DistributionAt(int32_t node) override;

 private:
  const SequenceModel& model_;
  const Tokens& committed_;
  const TokenTree& tree_;
  std::vector<float> log_weights_;
};

// Returns the tokens from the root's child down to a node.
Tokens TextOf(const TokenTree& tree, int32_t node);

// Index of a sequence among all sequences of its length.
int64_t SequenceIndex(int64_t vocab, absl::Span<const TokenId> tokens);

// Probability of every sequence of `length` tokens after the empty context, by
// SequenceIndex.
std::vector<double> JointDistribution(const SequenceModel& model,
                                      int64_t length);

// Adds weight * P(the model continues `text` so) to joint[SequenceIndex] of
// every sequence of `length` tokens. Longer texts are cut.
void SpreadOverContinuations(const SequenceModel& model, int64_t length,
                             Tokens text, double weight,
                             std::vector<double>& joint);

}  // namespace espalier::verifier

#endif  // ESPALIER_LAB_SEQUENCE_MODEL_H_
