#include "coordinator/merge_policies.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {
namespace {

// Everything that any drafter proposed, once; the likeliest of it, at the
// drafters' word, where the budget is too small for all.
class UnionMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    return TokenTrie(input.root, input.trees).Likeliest(input.max_nodes);
  }
};

}  // namespace

std::unique_ptr<MergePolicy> NewUnionMerge() {
  return std::make_unique<UnionMerge>();
}

}  // namespace espalier::coordinator
