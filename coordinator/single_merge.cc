#include <iterator>

#include "coordinator/merge_policies.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {
namespace {

// Laws hold for the tree as it was drawn, neither sorted nor cut, and whether
// it is kept so must not depend on how many draws were alike.
bool KeepsLaws(const TokenTree& tree, int64_t max_nodes) {
  return tree.claims_laws() && std::ssize(tree.slots) <= max_nodes;
}

TokenTree Whole(const DraftedTree& drafted) {
  TokenTree tree = *drafted.tree;
  tree.provenance.assign(tree.tokens.size(), uint64_t{1} << drafted.drafter);
  return tree;
}

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
    if (KeepsLaws(*first->tree, input.max_nodes)) return Whole(*first);
    return TokenTrie(input.root, {first, 1}).Likeliest(input.max_nodes);
  }
};

}  // namespace

std::unique_ptr<MergePolicy> NewSingleMerge() {
  return std::make_unique<SingleMerge>();
}

}  // namespace espalier::coordinator
