#include "verifier/flow/flow_rule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/merge_twins.h"

namespace espalier::verifier {
namespace {

class FlowRule final : public VerificationRule {
 public:
  explicit FlowRule(std::unique_ptr<TreeVerifier> verifier)
      : verifier_(std::move(verifier)) {}

  LawUse law_use() const override { return LawUse::kGathered; }

  absl::string_view Refusal(const TokenTree& tree) override {
    if (!tree.claims_laws()) return "no_laws";
    flow_tree_.Build(verifier_->merges_twins() ? MergeTwins(tree).tree : tree);
    return verifier_->Handles(flow_tree_) ? "" : "shape";
  }

  absl::StatusOr<Acceptance> Accept(const TokenTree& tree,
                                    int64_t first_position, TargetLaws& laws,
                                    Chooser& chooser) override {
    if (!verifier_->merges_twins()) {
      return AcceptApart(tree, first_position, laws, chooser);
    }
    const MergedTwins merged = MergeTwins(tree);
    LawsOfFirsts laws_of_firsts(laws, merged);
    ASSIGN_OR_RETURN(
        Acceptance accepted,
        AcceptApart(merged.tree, first_position, laws_of_firsts, chooser));
    if (!accepted.path.empty()) {
      accepted.path = tree.PathTo(merged.first[accepted.path.back()]);
    }
    return accepted;
  }

 private:
  absl::StatusOr<Acceptance> AcceptApart(const TokenTree& tree, int64_t round,
                                         TargetLaws& laws, Chooser& chooser) {
    flow_tree_.Build(tree);
    RETURN_IF_ERROR(flow_tree_.GatherTarget(laws));
    verifier_->Verify(flow_tree_, round, chooser, stop_law_);
    const auto node =
        static_cast<int32_t>(chooser.Choose(round, stop_law_.stop));
    ASSIGN_OR_RETURN(const TokenId bonus,
                     DrawBonus(node, round, laws, chooser));
    return Acceptance{.path = tree.PathTo(node), .bonus_token = bonus};
  }

  // One of the node's support, or some other token.
  absl::StatusOr<TokenId> DrawBonus(int32_t node, int64_t round,
                                    TargetLaws& laws, Chooser& chooser) {
    const auto support = flow_tree_.support(node);
    const auto weigh = [&](absl::Span<const double> inside, double outside) {
      bonus_.assign(inside.begin(), inside.end());
      bonus_.push_back(outside * flow_tree_.target_outside(node));
      return std::any_of(bonus_.begin(), bonus_.end(),
                         [](double weight) { return weight > 0; });
    };
    if (!weigh(flow_tree_.OfNode(stop_law_.inside, node),
               stop_law_.outside[node])) {
      // By rounding alone: nothing was left here, so the node had no weight.
      weigh(flow_tree_.target(node), 1);
    }
    const auto drawn = static_cast<size_t>(chooser.Choose(round, bonus_));
    if (drawn < support.size()) return support[drawn];
    return laws.DrawOutside(node, support, round, chooser);
  }

  const std::unique_ptr<TreeVerifier> verifier_;
  FlowTree flow_tree_;
  StopLaw stop_law_;
  std::vector<double> bonus_;  // [support + 1], the last of all other tokens
};

}  // namespace

std::unique_ptr<VerificationRule> NewFlowRule(
    std::unique_ptr<TreeVerifier> verifier) {
  return std::make_unique<FlowRule>(std::move(verifier));
}

}  // namespace espalier::verifier
