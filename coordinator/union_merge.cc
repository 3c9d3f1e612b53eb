#include "coordinator/lawful_union.h"
#include "coordinator/merge_policies.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {
namespace {

// Everything that any drafter proposed, once, with the laws of those that drew;
// the likeliest of it, at the drafters' word, where the budget is too small for
// all.
class UnionMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    if (auto lawful = LawfulUnion(input, Twins::kMerge)) return *lawful;
    return TokenTrie(input.root, input.trees).Likeliest(input.max_nodes);
  }
  bool keeps_laws() const override { return true; }
};

}  // namespace

std::unique_ptr<MergePolicy> NewUnionMerge() {
  return std::make_unique<UnionMerge>();
}

}  // namespace espalier::coordinator
