#include "coordinator/token_trie.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

namespace espalier::coordinator {

TokenTrie::TokenTrie(TokenId root)
    : nodes_{{.token = root, .log_prob = 0.0f, .provenance = 0}} {}

int32_t TokenTrie::ChildOf(int32_t parent, TokenId token) {
  for (int32_t child = nodes_[parent].first_child; child != kNone;
       child = nodes_[child].next_sibling) {
    if (nodes_[child].token == token) return child;
  }
  const int32_t child = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({.token = token,
                    .log_prob = -std::numeric_limits<float>::infinity(),
                    .provenance = 0,
                    .next_sibling = nodes_[parent].first_child});
  nodes_[parent].first_child = child;
  return child;
}

void TokenTrie::Insert(const DraftedTree& drafted) {
  const TokenTree& tree = *drafted.tree;
  const uint64_t bit = uint64_t{1} << drafted.drafter;
  nodes_[0].provenance |= bit;
  std::vector<int32_t> node_of(tree.tokens.size(), 0);
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    node_of[i] = ChildOf(node_of[tree.parents[i]], tree.tokens[i]);
    Node& node = nodes_[node_of[i]];
    node.log_prob = std::max(node.log_prob, tree.log_probs[i]);
    node.provenance |= bit;
  }
}

TokenTree TokenTrie::Likeliest(int64_t max_nodes) const {
  struct Candidate {
    int32_t node;
    int32_t parent;  // its index in the result
    float log_prob;
    TokenId token;

    // Less likely. Ties go to the earlier parent, then the lower token.
    bool operator<(const Candidate& other) const {
      return std::tie(log_prob, other.parent, other.token) <
             std::tie(other.log_prob, parent, token);
    }
  };
  std::priority_queue<Candidate> frontier;
  auto push_children = [&](int32_t node, int32_t index) {
    for (int32_t child = nodes_[node].first_child; child != kNone;
         child = nodes_[child].next_sibling) {
      frontier.push(
          {child, index, nodes_[child].log_prob, nodes_[child].token});
    }
  };

  TokenTree tree = TokenTree::RootOnly(nodes_[0].token);
  tree.provenance = {nodes_[0].provenance};
  push_children(0, 0);
  while (!frontier.empty() && tree.num_nodes() - 1 < max_nodes) {
    const Candidate best = frontier.top();
    frontier.pop();
    const int32_t index = tree.Add(best.parent, best.token, best.log_prob);
    tree.provenance.push_back(nodes_[best.node].provenance);
    push_children(best.node, index);
  }
  return tree;
}

}  // namespace espalier::coordinator
