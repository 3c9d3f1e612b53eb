#ifndef ESPALIER_COORDINATOR_TOKEN_TRIE_H_
#define ESPALIER_COORDINATOR_TOKEN_TRIE_H_

#include <cstdint>
#include <vector>

#include "common/spec/token_tree.h"
#include "common/spec/types.h"
#include "coordinator/merge_policy.h"

namespace espalier::coordinator {

// Token trees laid over each other: one node for each path of tokens, with the
// bits of all drafters that proposed it and the largest of their log_probs.
// (SpecInfer's token tree merge, Miao et al., ASPLOS'24.)
class TokenTrie {
 public:
  explicit TokenTrie(TokenId root);

  // REQUIRES: the tree is valid and starts at the trie's root.
  void Insert(const DraftedTree& drafted);

  // The max_nodes likeliest nodes, root excluded, likeliest first. A node is
  // never likelier than its parent, so they form a tree. Does not depend on the
  // order of the insertions.
  TokenTree Likeliest(int64_t max_nodes) const;

 private:
  static constexpr int32_t kNone = -1;
  struct Node {
    TokenId token;
    float log_prob;
    uint64_t provenance;
    int32_t first_child = kNone;
    int32_t next_sibling = kNone;
  };

  int32_t ChildOf(int32_t parent, TokenId token);

  std::vector<Node> nodes_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_TOKEN_TRIE_H_
