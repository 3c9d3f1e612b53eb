#include "coordinator/merge/merge_policies.h"
#include "coordinator/merge/token_trie.h"
#include "coordinator/merge/union_with_distributions.h"

namespace espalier::coordinator {
namespace {

// Merges all proposed nodes without duplicates, with the distributions of
// drafters that sampled. If the budget is too small for all, keeps the
// likeliest by the drafters' own probabilities.
class UnionMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    if (auto joined = UnionWithDistributions(input, Duplicates::kMerge))
      return *joined;
    return TokenTrie(input.root, input.trees).Likeliest(input.max_nodes);
  }
  bool keeps_distributions() const override { return true; }
};

}  // namespace

std::unique_ptr<MergePolicy> NewUnionMerge() {
  return std::make_unique<UnionMerge>();
}

}  // namespace espalier::coordinator
