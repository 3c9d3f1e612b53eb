#ifndef ESPALIER_COORDINATOR_MERGE_TOKEN_TRIE_H_
#define ESPALIER_COORDINATOR_MERGE_TOKEN_TRIE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"
#include "coordinator/merge/merge_policy.h"

namespace espalier::coordinator {

// Several token trees as one trie: one node for each path of tokens, with the
// scores of the drafters that proposed it. (SpecInfer's token tree merge, Miao
// et al., ASPLOS'24.)
class TokenTrie {
 public:
  static constexpr int32_t kNone = -1;

  // One drafter's score of a node.
  struct DrafterScore {
    int drafter = 0;  // its bit in `provenance`
    int peer = 0;     // see DraftedTree
    double weight = 1;
    int rank = 1;  // of the node among the drafter's children of the parent
    float log_prob = 0;     // of the path to the node
    float conditional = 0;  // log-probability, given the path to the parent
  };
  struct Node {
    TokenId token = 0;
    int32_t depth = 0;  // of the root: 0
    int32_t first_child = kNone;
    int32_t next_sibling = kNone;
    std::vector<DrafterScore> scores = {};  // one per drafter; root: none

    // The largest of the scores' log_probs. REQUIRES: not the root.
    float log_prob() const;
  };

  TokenTrie(TokenId root, absl::Span<const DraftedTree> trees);

  const Node& node(int32_t index) const { return nodes_[index]; }
  int32_t ChildOf(int32_t parent, TokenId token) const;  // kNone: no such child
  // How many drafters proposed a child of the node.
  int NumProposers(int32_t parent) const;
  // The largest of the scores' weights. REQUIRES: not the root.
  double WeightOf(int32_t node) const;

  // The max_nodes best nodes, root excluded, best first. `score` rates a node,
  // given the score of its parent. A score above the parent's is lowered to it,
  // so the nodes form a tree. The root's score is 0.
  using Score = absl::FunctionRef<double(int32_t node, int32_t parent,
                                         double parent_score)>;
  TokenTree BestFirst(int64_t max_nodes, Score score) const;

  // BestFirst by the drafters' own log_probs. Does not depend on the order of
  // the trees.
  TokenTree Likeliest(int64_t max_nodes) const;

 private:
  void Insert(const DraftedTree& drafted);
  int32_t Child(int32_t parent, TokenId token);

  std::vector<Node> nodes_;
  uint64_t drafters_ = 0;  // one bit per drafter
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_TOKEN_TRIE_H_
