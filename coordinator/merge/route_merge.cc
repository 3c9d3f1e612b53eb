#include <cmath>

#include "coordinator/merge/merge_policies.h"
#include "coordinator/merge/token_trie.h"

namespace espalier::coordinator {

double RouteScore(const TokenTree& tree) {
  if (tree.num_nodes() == 1) return 0;
  double sum = 0;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    sum += std::exp(static_cast<double>(tree.log_probs[i]));
  }
  return sum / static_cast<double>(tree.num_nodes() - 1);
}

namespace {

// Selects one tree: that of the drafter with the highest RouteScore, the first
// of equals. All drafters get every commit, so each may be selected next. (Zbib
// et al., arXiv 2603.27027, confidence routing.)
class RouteMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    const DraftedTree* chosen = nullptr;
    double best = 0;
    for (const DraftedTree& drafted : input.trees) {
      const double score = RouteScore(*drafted.tree);
      if (chosen == nullptr || score > best ||
          (score == best && drafted.drafter < chosen->drafter)) {
        chosen = &drafted;
        best = score;
      }
    }
    if (chosen == nullptr) return TokenTrie(input.root, {}).Likeliest(0);
    return TokenTrie(input.root, {chosen, 1}).Likeliest(input.max_nodes);
  }
};

}  // namespace

std::unique_ptr<MergePolicy> NewRouteMerge() {
  return std::make_unique<RouteMerge>();
}

}  // namespace espalier::coordinator
