#include "coordinator/merge/union_with_distributions.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace espalier::coordinator {
namespace {

int64_t NumSamples(const TokenTree& tree) {
  return tree.claims_distributions() ? std::ssize(tree.samples)
                                     : tree.num_nodes() - 1;
}

void AddTree(const DraftedTree& drafted, Duplicates duplicates,
             TokenTree& merged) {
  const TokenTree& tree = *drafted.tree;
  const uint64_t bit = uint64_t{1} << drafted.drafter;
  merged.provenance[0] |= bit;
  std::vector<int32_t> index = {0};  // [nodes]
  for (int32_t i = 1; i < tree.num_nodes(); ++i) {
    const int32_t parent = index[tree.parents[i]];
    int32_t node = TokenTree::kNoChild;
    if (duplicates == Duplicates::kMerge)
      node = merged.ChildWith(parent, tree.tokens[i]);
    if (node == TokenTree::kNoChild) {
      node = merged.Add(parent, tree.tokens[i], tree.log_probs[i]);
      merged.provenance.push_back(0);
    }
    // In no tree is a child likelier than its parent, so this also holds for
    // the maxima.
    merged.log_probs[node] =
        std::max(merged.log_probs[node], tree.log_probs[i]);
    merged.provenance[node] |= bit;
    index.push_back(node);
    if (!tree.claims_distributions()) merged.samples.push_back({.node = node});
  }
  const int32_t first_distribution = merged.distributions.size();
  for (int32_t i = 0; i < tree.distributions.size(); ++i)
    merged.distributions.Add(tree.distributions[i]);
  for (const DraftSample& sample : tree.samples) {
    const bool is_sampled = sample.distribution != DraftSample::kDeterministic;
    merged.samples.push_back(
        {.node = index[sample.node],
         .distribution = is_sampled ? first_distribution + sample.distribution
                                    : DraftSample::kDeterministic});
  }
}

}  // namespace

std::optional<TokenTree> UnionWithDistributions(const MergeInput& input,
                                                Duplicates duplicates) {
  std::vector<DraftedTree> sorted(input.trees.begin(), input.trees.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const DraftedTree& a, const DraftedTree& b) {
              return a.drafter < b.drafter;
            });
  int64_t samples = 0;
  bool has_distributions = false, all_trusted = true;
  for (const DraftedTree& drafted : sorted) {
    samples += NumSamples(*drafted.tree);
    has_distributions |= drafted.tree->claims_distributions();
    all_trusted &= drafted.trusted;
  }
  if (!has_distributions || !all_trusted || samples > input.max_nodes) {
    return std::nullopt;
  }
  TokenTree merged = TokenTree::RootOnly(input.root);
  merged.provenance = {0};
  for (const DraftedTree& drafted : sorted)
    AddTree(drafted, duplicates, merged);
  return merged;
}

}  // namespace espalier::coordinator
