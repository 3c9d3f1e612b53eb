#include <algorithm>
#include <vector>

#include "coordinator/merge/merge_policies.h"
#include "coordinator/merge/union_with_distributions.h"

namespace espalier::coordinator {
namespace {

struct Entry {
  size_t tree = 0;
  int32_t node = 0;
  float log_prob = 0;
};

// The likeliest max_nodes nodes of all trees; ties go to the earlier node. A
// parent comes earlier and is no less likely than its children, so it is always
// included with them.
std::vector<Entry> Likeliest(const std::vector<DraftedTree>& trees,
                             int64_t max_nodes) {
  std::vector<Entry> entries;
  for (size_t t = 0; t < trees.size(); ++t) {
    const TokenTree& tree = *trees[t].tree;
    for (int32_t i = 1; i < tree.num_nodes(); ++i) {
      entries.push_back({t, i, tree.log_probs[i]});
    }
  }
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.log_prob > b.log_prob; });
  entries.resize(std::min<size_t>(entries.size(), max_nodes));
  return entries;
}

// Puts the trees side by side under the shared root, each with its nodes in
// their order (Zbib et al., "Task Aware Proposal Distributions for Speculative
// Sampling", arXiv 2603.27027, merged trees). Tokens that two drafters propose
// appear twice: the rule follows every duplicate. Union finds the same texts
// with fewer rows; this policy is a baseline.
class DisjointMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    if (auto joined = UnionWithDistributions(input, Duplicates::kKeep))
      return *joined;
    std::vector<DraftedTree> sorted(input.trees.begin(), input.trees.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const DraftedTree& a, const DraftedTree& b) {
                return a.drafter < b.drafter;
              });
    std::vector<Entry> entries = Likeliest(sorted, input.max_nodes);
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) {
                return a.tree != b.tree ? a.tree < b.tree : a.node < b.node;
              });

    TokenTree merged = TokenTree::RootOnly(input.root);
    merged.provenance = {0};
    std::vector<std::vector<int32_t>> index(sorted.size());
    for (size_t t = 0; t < sorted.size(); ++t) {
      index[t].resize(sorted[t].tree->num_nodes());
      merged.provenance[0] |= uint64_t{1} << sorted[t].drafter;
    }
    for (const Entry& entry : entries) {
      const TokenTree& tree = *sorted[entry.tree].tree;
      const int32_t parent = index[entry.tree][tree.parents[entry.node]];
      index[entry.tree][entry.node] =
          merged.Add(parent, tree.tokens[entry.node], entry.log_prob);
      merged.provenance.push_back(uint64_t{1} << sorted[entry.tree].drafter);
    }
    return merged;
  }
  bool keeps_distributions() const override { return true; }
};

}  // namespace

std::unique_ptr<MergePolicy> NewDisjointMerge() {
  return std::make_unique<DisjointMerge>();
}

}  // namespace espalier::coordinator
