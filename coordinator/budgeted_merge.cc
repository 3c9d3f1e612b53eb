#include <cmath>

#include "coordinator/calibration.h"
#include "coordinator/merge_policies.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {
namespace {

// All trees as one, without duplicates, the nodes first that are likeliest to
// be emitted by what the drafters' words have been worth: a drafter that is too
// sure of itself cannot crowd out an honest one.
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

  bool foresees() const override { return true; }
};

}  // namespace

std::unique_ptr<MergePolicy> NewBudgetedMerge() {
  return std::make_unique<BudgetedMerge>();
}

}  // namespace espalier::coordinator
