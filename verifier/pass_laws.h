#ifndef ESPALIER_VERIFIER_PASS_LAWS_H_
#define ESPALIER_VERIFIER_PASS_LAWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/language_model.h"
#include "common/spec/sampling_params.h"
#include "common/spec/token_tree.h"
#include "verifier/law_transform.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// What the rows of a tree are used for: what the rule's law_use() says, if no
// filter comes between the logits and the law; else anything. REQUIRES: the
// rule does not refuse the tree.
LogitUse UseOfLaws(const VerificationRule& rule, const TokenTree& tree,
                   const SamplingParams& sampling, int64_t first_position);

// The laws after the nodes of a tree, from the pass that ran it. If the pass
// was told of draws, a law is that of the drawn token alone. If it gathered,
// there is no LawAt, and Gather and DrawOutside give what they give without,
// but for the rounding of the weight outside.
class PassLaws final : public TargetLaws {
 public:
  struct Input {
    const TokenTree& tree;
    const SamplingParams& sampling;
    LogitUse use;  // that the pass was told of
    const LogitRows& rows;
    int64_t first_row = 0;       // of the tree's root
    int64_t first_position = 0;  // of the token after the root
  };

  // Borrows what is in `input`, and the transform.
  PassLaws(const Input& input, LawTransform& transform)
      : input_(input), transform_(transform), depths_(input.tree.Depths()) {}

  // Only rows that are asked for are transformed, or even copied from the
  // device. INTERNAL: names the node, its logits are not finite.
  absl::StatusOr<TargetLaw> LawAt(int32_t node) override;
  absl::StatusOr<double> Gather(int32_t node, absl::Span<const TokenId> support,
                                absl::Span<double> inside) override;
  absl::StatusOr<TokenId> DrawOutside(int32_t node,
                                      absl::Span<const TokenId> support,
                                      int64_t round, Chooser& chooser) override;

 private:
  absl::StatusOr<TargetLaw> Law(int32_t node);
  absl::StatusOr<GatheredRow> GatheredAt(int32_t node,
                                         const GatherRequest& request) const;

  const Input input_;
  LawTransform& transform_;
  const std::vector<int32_t> depths_;  // [nodes]
  TokenId drawn_ = 0;                  // of the last law
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_PASS_LAWS_H_
