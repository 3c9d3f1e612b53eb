#include "verifier/flow/flow_rule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/merge_twins.h"
#include "verifier/law_weights.h"

namespace espalier::verifier {
namespace {

// A tree's laws, asked for by the nodes of the tree with its twins merged.
class LawsOfFirsts final : public TargetLaws {
 public:
  LawsOfFirsts(TargetLaws& laws, absl::Span<const int32_t> first)
      : laws_(laws), first_(first) {}
  absl::StatusOr<TargetLaw> LawAt(int32_t node) override {
    return laws_.LawAt(first_[node]);
  }

 private:
  TargetLaws& laws_;
  absl::Span<const int32_t> first_;
};

class FlowRule final : public VerificationRule {
 public:
  explicit FlowRule(std::unique_ptr<TreeVerifier> verifier)
      : verifier_(std::move(verifier)) {}

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
    LawsOfFirsts laws_of_firsts(laws, merged.first);
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
    ASSIGN_OR_RETURN(const TargetLaw law, laws.LawAt(node));
    const LawWeights target(law);
    WeighBonus(node, target);
    return Acceptance{
        .path = tree.PathTo(node),
        .bonus_token = target.token(chooser.Choose(round, bonus_))};
  }

  // Weighs every token as bonus token behind the node.
  void WeighBonus(int32_t node, const LawWeights& target) {
    const auto support = flow_tree_.support(node);
    const auto inside = flow_tree_.OfNode(stop_law_.inside, node);
    const double outside = stop_law_.outside[node];
    bonus_.resize(target.size());
    size_t next = 0;  // of the support; both ascend
    double sum = 0;
    for (int64_t i = 0; i < target.size(); ++i) {
      while (next < support.size() && support[next] < target.token(i)) ++next;
      const bool is_inside =
          next < support.size() && support[next] == target.token(i);
      bonus_[i] = is_inside ? inside[next] : outside * target.Probability(i);
      sum += bonus_[i];
    }
    if (sum > 0) return;
    // By rounding alone: nothing was left here, so the node had no weight.
    for (int64_t i = 0; i < target.size(); ++i) {
      bonus_[i] = target.Probability(i);
    }
  }

  const std::unique_ptr<TreeVerifier> verifier_;
  FlowTree flow_tree_;
  StopLaw stop_law_;
  std::vector<double> bonus_;  // [size of the target's law]
};

}  // namespace

std::unique_ptr<VerificationRule> NewFlowRule(
    std::unique_ptr<TreeVerifier> verifier) {
  return std::make_unique<FlowRule>(std::move(verifier));
}

}  // namespace espalier::verifier
