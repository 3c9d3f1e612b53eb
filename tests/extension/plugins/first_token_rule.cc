#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "tests/extension/plugins/plugins.h"

namespace espalier::extension {
namespace {

using verifier::Acceptance;

// Reads only the first level of the tree: samples the target's token and, if a
// child of the root has it, the next token. Exact for every tree and
// temperature; it needs whole logits.
class FirstTokenRule final : public verifier::VerificationRule {
 public:
  absl::StatusOr<Acceptance> Accept(
      const TokenTree& tree, int64_t first_position,
      verifier::TargetDistributions& distributions,
      verifier::TokenSampler& sampler) override {
    ASSIGN_OR_RETURN(const TokenId first, SampleAt(/*node=*/0, first_position,
                                                   distributions, sampler));
    const int32_t child = tree.ChildWith(0, first);
    if (child == TokenTree::kNoChild) return Acceptance{.bonus_token = first};
    ASSIGN_OR_RETURN(const TokenId second, SampleAt(child, first_position + 1,
                                                    distributions, sampler));
    return Acceptance{.path = {child}, .bonus_token = second};
  }

 private:
  static absl::StatusOr<TokenId> SampleAt(
      int32_t node, int64_t position,
      verifier::TargetDistributions& distributions,
      verifier::TokenSampler& sampler) {
    ASSIGN_OR_RETURN(const verifier::TargetDistribution distribution,
                     distributions.DistributionAt(node));
    return sampler.SampleToken(position, distribution);
  }
};

}  // namespace

void RegisterFirstTokenRule(Registry<verifier::VerificationRule>& registry) {
  registry.Add("first-token",
               [] { return std::make_unique<FirstTokenRule>(); });
}

}  // namespace espalier::extension
