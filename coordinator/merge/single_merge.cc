#include <algorithm>
#include <iterator>

#include "coordinator/merge/merge_policies.h"
#include "coordinator/merge/token_trie.h"

namespace espalier::coordinator {
namespace {

// Distributions are valid for the tree as it was sampled, neither sorted nor
// cut, and whether they are kept must not depend on how many samples were
// equal.
bool KeepsDistributions(const TokenTree& tree, int64_t max_nodes) {
  return tree.claims_distributions() && std::ssize(tree.samples) <= max_nodes;
}

TokenTree Whole(const DraftedTree& drafted) {
  TokenTree tree = *drafted.tree;
  tree.provenance.assign(tree.tokens.size(), uint64_t{1} << drafted.drafter);
  return tree;
}

// Uses the tree of the first drafter that drafted something. With one drafter
// in the request it is that drafter alone: the baseline of the other policies.
class SingleMerge final : public MergePolicy {
 public:
  // No drafter precedes the request's first one.
  bool HasEnough(const MergeInput& input) const override {
    return std::any_of(input.trees.begin(), input.trees.end(),
                       [](const DraftedTree& drafted) {
                         return drafted.drafter == 0 && drafted.whole &&
                                drafted.tree->num_nodes() > 1;
                       });
  }

  TokenTree Merge(const MergeInput& input) const override {
    const DraftedTree* first = nullptr;
    for (const DraftedTree& drafted : input.trees) {
      const bool drafted_something = drafted.tree->num_nodes() > 1;
      const bool is_earlier =
          first == nullptr || drafted.drafter < first->drafter;
      if (drafted_something && is_earlier) first = &drafted;
    }
    if (first == nullptr) return TokenTrie(input.root, {}).Likeliest(0);
    if (KeepsDistributions(*first->tree, input.max_nodes)) return Whole(*first);
    return TokenTrie(input.root, {first, 1}).Likeliest(input.max_nodes);
  }
};

}  // namespace

std::unique_ptr<MergePolicy> NewSingleMerge() {
  return std::make_unique<SingleMerge>();
}

}  // namespace espalier::coordinator
