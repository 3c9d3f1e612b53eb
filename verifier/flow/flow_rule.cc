#include "verifier/flow/flow_rule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/merge_duplicates.h"

namespace espalier::verifier {
namespace {

class FlowRule final : public VerificationRule {
 public:
  explicit FlowRule(std::unique_ptr<TreeVerifier> verifier)
      : verifier_(std::move(verifier)) {}

  RuleNeeds needs() const override {
    return {.logits = LogitNeed::kGathered,
            .draft_distributions = true,
            .sampling = true};
  }

  absl::string_view UnsupportedReason(const TokenTree& tree) override {
    if (!tree.claims_distributions()) return "no_distributions";
    flow_tree_.Build(verifier_->merges_duplicates() ? MergeDuplicates(tree).tree
                                                    : tree);
    return verifier_->Handles(flow_tree_) ? "" : "shape";
  }

  absl::StatusOr<Acceptance> Accept(const TokenTree& tree,
                                    int64_t first_position,
                                    TargetDistributions& distributions,
                                    TokenSampler& sampler) override {
    if (!verifier_->merges_duplicates()) {
      return AcceptApart(tree, first_position, distributions, sampler);
    }
    const MergedDuplicates merged = MergeDuplicates(tree);
    DistributionsOfFirsts distributions_of_firsts(distributions, merged);
    ASSIGN_OR_RETURN(Acceptance accepted,
                     AcceptApart(merged.tree, first_position,
                                 distributions_of_firsts, sampler));
    if (!accepted.path.empty()) {
      accepted.path = tree.PathTo(merged.first[accepted.path.back()]);
    }
    return accepted;
  }

 private:
  absl::StatusOr<Acceptance> AcceptApart(const TokenTree& tree, int64_t round,
                                         TargetDistributions& distributions,
                                         TokenSampler& sampler) {
    flow_tree_.Build(tree);
    RETURN_IF_ERROR(flow_tree_.GatherTarget(distributions));
    verifier_->Verify(flow_tree_, round, sampler, stop_distribution_);
    const auto node = static_cast<int32_t>(
        sampler.SampleIndex(round, stop_distribution_.stop));
    ASSIGN_OR_RETURN(const TokenId bonus,
                     DrawBonus(node, round, distributions, sampler));
    return Acceptance{.path = tree.PathTo(node), .bonus_token = bonus};
  }

  // Samples a token of the node's support, or some other token.
  absl::StatusOr<TokenId> DrawBonus(int32_t node, int64_t round,
                                    TargetDistributions& distributions,
                                    TokenSampler& sampler) {
    const auto support = flow_tree_.support(node);
    const auto weigh = [&](absl::Span<const double> inside, double outside) {
      bonus_.assign(inside.begin(), inside.end());
      bonus_.push_back(outside * flow_tree_.target_outside(node));
      return std::any_of(bonus_.begin(), bonus_.end(),
                         [](double weight) { return weight > 0; });
    };
    if (!weigh(flow_tree_.OfNode(stop_distribution_.inside, node),
               stop_distribution_.outside[node])) {
      // Only by rounding: without a residual, the node had no weight.
      weigh(flow_tree_.target(node), 1);
    }
    const auto sampled =
        static_cast<size_t>(sampler.SampleIndex(round, bonus_));
    if (sampled < support.size()) return support[sampled];
    return distributions.SampleOutside(node, support, round, sampler);
  }

  const std::unique_ptr<TreeVerifier> verifier_;
  FlowTree flow_tree_;
  StopDistribution stop_distribution_;
  std::vector<double> bonus_;  // [support + 1], the last of all other tokens
};

}  // namespace

std::unique_ptr<VerificationRule> NewFlowRule(
    std::unique_ptr<TreeVerifier> verifier) {
  return std::make_unique<FlowRule>(std::move(verifier));
}

}  // namespace espalier::verifier
