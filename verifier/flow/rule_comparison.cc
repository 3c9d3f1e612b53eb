#include "verifier/flow/rule_comparison.h"

#include "common/base/check.h"
#include "common/base/registry.h"
#include "common/base/status_macros.h"
#include "verifier/flow/merge_twins.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr char kWalk[] = "walk";
constexpr uint64_t kSeed = 0x636F6D70617265;  // nobody's text depends on it

// Probability that the text goes through each node, summed. REQUIRES: no twins.
double WalkLength(const FlowTree& tree, std::vector<double>& reach) {
  reach.assign(tree.num_nodes(), 0);
  reach[0] = 1;
  double length = 0;
  for (int32_t node = 0; node < tree.num_nodes(); ++node) {
    if (node > 0) length += reach[node];
    for (const FlowTree::Attempt& attempt : tree.attempts(node)) {
      // The same for every attempt that found the child.
      reach[attempt.child] = reach[node] * tree.target(node)[attempt.entry];
    }
  }
  return length;
}

}  // namespace

RuleComparison::RuleComparison() : chooser_(kSeed) {
  Registry<TreeVerifier> registry("rule");
  RegisterTreeVerifiers(registry);
  for (const std::string& name : registry.Names()) {
    auto verifier = registry.Create(name);
    ESPALIER_CHECK(verifier.ok());
    verifiers_[name] = *std::move(verifier);
  }
}

std::vector<std::string> RuleComparison::Rules() const {
  std::vector<std::string> names = {kWalk};
  for (const auto& [name, verifier] : verifiers_) names.push_back(name);
  return names;
}

absl::StatusOr<std::vector<RuleLength>> RuleComparison::Compare(
    const TokenTree& tree, TargetLaws& laws) {
  const MergedTwins merged = MergeTwins(tree);
  LawsOfFirsts laws_of_firsts(laws, merged);
  merged_tree_.Build(merged.tree);
  RETURN_IF_ERROR(merged_tree_.GatherTarget(laws_of_firsts));
  const bool has_twins = merged.tree.num_nodes() < tree.num_nodes();
  if (has_twins) {
    tree_.Build(tree);
    RETURN_IF_ERROR(tree_.GatherTarget(laws));
  }
  ++round_;
  std::vector<RuleLength> lengths = {
      {.rule = kWalk, .accepted = WalkLength(merged_tree_, reach_)}};
  for (const auto& [name, verifier] : verifiers_) {
    const FlowTree& seen =
        has_twins && !verifier->merges_twins() ? tree_ : merged_tree_;
    if (!verifier->Handles(seen)) continue;
    verifier->Verify(seen, round_, chooser_, stop_law_);
    lengths.push_back(
        {.rule = name, .accepted = stop_law_.ExpectedAccepted(seen)});
  }
  return lengths;
}

}  // namespace espalier::verifier
