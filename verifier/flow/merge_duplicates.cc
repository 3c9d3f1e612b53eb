#include "verifier/flow/merge_duplicates.h"

#include <algorithm>

namespace espalier::verifier {
namespace {

// Draws without replacement stay with the draws that they were made with.
bool Same(const DraftDistribution& a, const DraftDistribution& b) {
  return a.draws == SampleDependence::kIndependent &&
         b.draws == SampleDependence::kIndependent && a.tokens == b.tokens &&
         a.weights == b.weights;
}

// Returns the distribution's index among `merged`, which gains it if it is new.
int32_t Merge(const DraftDistribution& distribution,
              DraftDistributions& merged) {
  for (int32_t i = 0; i < merged.size(); ++i) {
    if (Same(distribution, merged[i])) return i;
  }
  return merged.Add(distribution);
}

}  // namespace

MergedDuplicates MergeDuplicates(const TokenTree& tree) {
  MergedDuplicates merged = {
      .tree = TokenTree::RootOnly(tree.tokens[0]), .first = {0}, .into = {0}};
  for (int32_t i = 1; i < tree.num_nodes(); ++i) {
    const int32_t parent = merged.into[tree.parents[i]];
    int32_t node = merged.tree.ChildWith(parent, tree.tokens[i]);
    if (node == TokenTree::kNoChild) {
      // Duplicates may disagree on their log-probability; it must not rise.
      node = merged.tree.Add(
          parent, tree.tokens[i],
          std::min(tree.log_probs[i], merged.tree.log_probs[parent]));
      merged.first.push_back(i);
    }
    merged.into.push_back(node);
  }
  std::vector<int32_t> distribution_of;  // [distributions]
  for (int32_t distribution = 0; distribution < tree.distributions.size();
       ++distribution) {
    distribution_of.push_back(
        Merge(tree.distributions[distribution], merged.tree.distributions));
  }
  for (const DraftSample& sample : tree.samples) {
    const bool is_sampled = sample.distribution != DraftSample::kDeterministic;
    merged.tree.samples.push_back(
        {.node = merged.into[sample.node],
         .distribution = is_sampled ? distribution_of[sample.distribution]
                                    : DraftSample::kDeterministic});
  }
  return merged;
}

}  // namespace espalier::verifier
