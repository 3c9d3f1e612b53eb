#ifndef ESPALIER_VERIFIER_DISTRIBUTIONS_PASS_DISTRIBUTIONS_H_
#define ESPALIER_VERIFIER_DISTRIBUTIONS_PASS_DISTRIBUTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/grammar/token_masks.h"
#include "common/model/language_model.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/token_tree.h"
#include "verifier/distributions/distribution_transform.h"
#include "verifier/distributions/logit_adjuster.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// Returns what the logits of a tree's rows are used for: the rule's need, if
// nothing applies between logits and distribution but, for one sample, filters
// that a model may know (min-p, top-k, top-p); else everything. REQUIRES: the
// rule supports the tree.
LogitUse LogitUseFor(const VerificationRule& rule, const TokenTree& tree,
                     const SamplingParams& sampling, int64_t first_position);

// The distributions after the nodes of a tree, from the pass that ran it. If
// the pass drew the tokens itself, a distribution holds only the sampled token.
// If the pass gathered probabilities, DistributionAt is not available, and
// Gather and SampleOutside give the same results as from whole rows, except for
// rounding of the outside weight.
class PassDistributions final : public TargetDistributions {
 public:
  struct Input {
    const TokenTree& tree;
    const SamplingParams& sampling;
    LogitUse use;  // as given to the pass
    const LogitRows& rows;
    int64_t first_row = 0;       // of the tree's root
    int64_t first_position = 0;  // of the token after the root
    // Null: none. REQUIRES: with any, `use` is AnyUse.
    const LogitAdjustments* adjustments = nullptr;
    absl::Span<const TokenId> committed = {};  // the text up to the root
    // [nodes] what the adjustments' grammar allows; null: there is no grammar.
    const grammar::TokenMasks* masks = nullptr;
  };

  // Borrows the contents of `input` and the transform.
  PassDistributions(const Input& input, DistributionTransform& transform);

  // Only requested rows are transformed, or copied from the device. INTERNAL:
  // the node's logits are not finite; the message names the node.
  absl::StatusOr<TargetDistribution> DistributionAt(int32_t node) override;
  absl::StatusOr<double> Gather(int32_t node, absl::Span<const TokenId> support,
                                absl::Span<double> inside) override;
  absl::StatusOr<TokenId> SampleOutside(int32_t node,
                                        absl::Span<const TokenId> support,
                                        int64_t round,
                                        TokenSampler& sampler) override;

 private:
  absl::StatusOr<TargetDistribution> Distribution(int32_t node);
  // Returns what the pass drew; none: it did not.
  absl::StatusOr<std::optional<SampledToken>> SampledAt(int32_t node) const;
  absl::StatusOr<GatheredRow> GatheredAt(int32_t node,
                                         const GatherRequest& request) const;

  const Input input_;
  DistributionTransform& transform_;
  const std::vector<int32_t> depths_;  // [nodes]
  std::optional<LogitAdjuster> adjuster_;
  TokenId sampled_ = 0;  // of the last distribution
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_DISTRIBUTIONS_PASS_DISTRIBUTIONS_H_
