#ifndef ESPALIER_VERIFIER_PASS_LAWS_H_
#define ESPALIER_VERIFIER_PASS_LAWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/language_model.h"
#include "common/spec/sampling_params.h"
#include "common/spec/token_tree.h"
#include "verifier/law_transform.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// What the rows of a tree are used for: draws, if the rule does nothing but
// draw and no filter comes between the logits and the law.
LogitUse UseOfLaws(const VerificationRule& rule,
                   const SamplingParams& sampling);

// The laws after the nodes of a tree, from the pass that ran it. If the pass
// was told of draws, a law is that of the drawn token alone.
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

 private:
  absl::StatusOr<TargetLaw> Law(int32_t node);

  const Input input_;
  LawTransform& transform_;
  const std::vector<int32_t> depths_;  // [nodes]
  TokenId drawn_ = 0;                  // of the last law
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_PASS_LAWS_H_
