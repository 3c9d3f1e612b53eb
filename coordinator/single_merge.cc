#include "coordinator/merge_policies.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {
namespace {

// The tree of the first drafter that drafted something. With one drafter in the
// request it is that drafter alone, which is what others are measured against.
class SingleMerge final : public MergePolicy {
 public:
  TokenTree Merge(TokenId root, absl::Span<const DraftedTree> trees,
                  int64_t max_nodes) const override {
    TokenTrie trie(root);
    const DraftedTree* first = nullptr;
    for (const DraftedTree& drafted : trees) {
      const bool drafted_something = drafted.tree->num_nodes() > 1;
      const bool is_earlier =
          first == nullptr || drafted.drafter < first->drafter;
      if (drafted_something && is_earlier) first = &drafted;
    }
    if (first != nullptr) trie.Insert(*first);
    return trie.Likeliest(max_nodes);
  }
};

}  // namespace

std::unique_ptr<MergePolicy> NewSingleMerge() {
  return std::make_unique<SingleMerge>();
}

}  // namespace espalier::coordinator
