#include "coordinator/merge_policies.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {
namespace {

// Everything that any drafter proposed, once; the likeliest of it where the
// budget is too small for all.
class UnionMerge final : public MergePolicy {
 public:
  TokenTree Merge(TokenId root, absl::Span<const DraftedTree> trees,
                  int64_t max_nodes) const override {
    TokenTrie trie(root);
    for (const DraftedTree& drafted : trees) trie.Insert(drafted);
    return trie.Likeliest(max_nodes);
  }
};

}  // namespace

std::unique_ptr<MergePolicy> NewUnionMerge() {
  return std::make_unique<UnionMerge>();
}

}  // namespace espalier::coordinator
