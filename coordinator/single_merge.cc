#include "coordinator/merge_policies.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {
namespace {

// The tree of the first drafter that drafted something. With one drafter in the
// request it is that drafter alone, which is what others are measured against.
class SingleMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    const DraftedTree* first = nullptr;
    for (const DraftedTree& drafted : input.trees) {
      const bool drafted_something = drafted.tree->num_nodes() > 1;
      const bool is_earlier =
          first == nullptr || drafted.drafter < first->drafter;
      if (drafted_something && is_earlier) first = &drafted;
    }
    if (first == nullptr) return TokenTrie(input.root, {}).Likeliest(0);
    return TokenTrie(input.root, {first, 1}).Likeliest(input.max_nodes);
  }
};

}  // namespace

std::unique_ptr<MergePolicy> NewSingleMerge() {
  return std::make_unique<SingleMerge>();
}

}  // namespace espalier::coordinator
