#include "verifier/flow/rule_comparison.h"

#include "common/base/check.h"
#include "common/base/registry.h"
#include "common/base/status_macros.h"
#include "verifier/flow/merge_duplicates.h"
#include "verifier/flow/tree_verifiers.h"

namespace espalier::verifier {
namespace {

constexpr uint64_t kSeed = 0x636F6D70617265;  // no text depends on it

}  // namespace

RuleComparison::RuleComparison() : sampler_(kSeed) {
  Registry<TreeVerifier> registry("rule");
  RegisterComparedVerifiers(registry);
  for (const std::string& name : registry.Names()) {
    auto verifier = registry.Create(name);
    ESPALIER_CHECK(verifier.ok());
    verifiers_[name] = *std::move(verifier);
  }
}

std::vector<std::string> RuleComparison::Rules() const {
  std::vector<std::string> names;
  for (const auto& [name, verifier] : verifiers_) names.push_back(name);
  return names;
}

absl::StatusOr<std::vector<RuleLength>> RuleComparison::Compare(
    const TokenTree& tree, TargetDistributions& distributions) {
  const MergedDuplicates merged = MergeDuplicates(tree);
  DistributionsOfFirsts distributions_of_firsts(distributions, merged);
  merged_tree_.Build(merged.tree);
  RETURN_IF_ERROR(merged_tree_.GatherTarget(distributions_of_firsts));
  const bool has_duplicates = merged.tree.num_nodes() < tree.num_nodes();
  if (has_duplicates) {
    tree_.Build(tree);
    RETURN_IF_ERROR(tree_.GatherTarget(distributions));
  }
  ++round_;
  std::vector<RuleLength> lengths;
  for (const auto& [name, verifier] : verifiers_) {
    const FlowTree& seen =
        has_duplicates && !verifier->merges_duplicates() ? tree_ : merged_tree_;
    if (!verifier->Handles(seen)) continue;
    verifier->Verify(seen, round_, sampler_, stop_distribution_);
    lengths.push_back(
        {.rule = name, .accepted = stop_distribution_.ExpectedAccepted(seen)});
  }
  return lengths;
}

}  // namespace espalier::verifier
