#include <cmath>

#include "coordinator/merge/calibration.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/merge/token_trie.h"

namespace espalier::coordinator {
namespace {

// Merges all trees without duplicates, the nodes most likely to be emitted
// first, by calibrated probabilities: a drafter that overrates itself cannot
// crowd out an honest one.
class BudgetedMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    const TokenTrie trie(input.root, input.trees);
    return trie.BestFirst(input.max_nodes, [&](int32_t node, int32_t parent,
                                               double parent_score) {
      return parent_score +
             std::log(trie.WeightOf(node) *
                      input.calibration->Chance(trie, node, parent));
    });
  }

  bool ranks_by_acceptance() const override { return true; }
};

}  // namespace

std::unique_ptr<MergePolicy> NewBudgetedMerge() {
  return std::make_unique<BudgetedMerge>();
}

}  // namespace espalier::coordinator
