#include "coordinator/merge/token_trie.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

namespace espalier::coordinator {
namespace {

// [num_nodes] rank of each node among its siblings, likeliest first, from 1;
// ties go to the lower token, then to the earlier node. The root: 0.
std::vector<int> RanksOf(const TokenTree& tree) {
  std::vector<int32_t> order(tree.num_nodes() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::sort(order.begin(), order.end(), [&tree](int32_t a, int32_t b) {
    return std::tuple(-tree.log_probs[a], tree.tokens[a], a) <
           std::tuple(-tree.log_probs[b], tree.tokens[b], b);
  });
  std::vector<int> ranks(tree.num_nodes(), 0);
  std::vector<int> num_ranked(tree.num_nodes(), 0);
  for (int32_t node : order) ranks[node] = ++num_ranked[tree.parents[node]];
  return ranks;
}

}  // namespace

float TokenTrie::Node::log_prob() const {
  float best = scores[0].log_prob;
  for (const DrafterScore& score : scores) {
    best = std::max(best, score.log_prob);
  }
  return best;
}

TokenTrie::TokenTrie(TokenId root, absl::Span<const DraftedTree> trees)
    : nodes_{{.token = root}} {
  for (const DraftedTree& drafted : trees) Insert(drafted);
}

int32_t TokenTrie::ChildOf(int32_t parent, TokenId token) const {
  int32_t child = nodes_[parent].first_child;
  while (child != kNone && nodes_[child].token != token) {
    child = nodes_[child].next_sibling;
  }
  return child;
}

int32_t TokenTrie::Child(int32_t parent, TokenId token) {
  if (const int32_t child = ChildOf(parent, token); child != kNone) {
    return child;
  }
  const int32_t child = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({.token = token,
                    .depth = nodes_[parent].depth + 1,
                    .next_sibling = nodes_[parent].first_child});
  nodes_[parent].first_child = child;
  return child;
}

// If one tree has duplicates, the likelier one gives the score.
void TokenTrie::Insert(const DraftedTree& drafted) {
  const TokenTree& tree = *drafted.tree;
  drafters_ |= uint64_t{1} << drafted.drafter;
  const std::vector<int> ranks = RanksOf(tree);
  std::vector<int32_t> node_of(tree.num_nodes(), 0);
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    const int32_t parent = tree.parents[i];
    node_of[i] = Child(node_of[parent], tree.tokens[i]);
    const DrafterScore score = {
        .drafter = drafted.drafter,
        .peer = drafted.peer,
        .weight = drafted.weight,
        .rank = ranks[i],
        .log_prob = tree.log_probs[i],
        .conditional = tree.log_probs[i] - tree.log_probs[parent]};
    auto& scores = nodes_[node_of[i]].scores;
    if (scores.empty() || scores.back().drafter != drafted.drafter) {
      scores.push_back(score);
    } else if (score.log_prob > scores.back().log_prob) {
      scores.back() = score;
    }
  }
}

// Each drafter has exactly one child of rank 1.
int TokenTrie::NumProposers(int32_t parent) const {
  int num_proposers = 0;
  for (int32_t child = nodes_[parent].first_child; child != kNone;
       child = nodes_[child].next_sibling) {
    for (const DrafterScore& score : nodes_[child].scores) {
      num_proposers += score.rank == 1;
    }
  }
  return num_proposers;
}

double TokenTrie::WeightOf(int32_t node) const {
  double weight = 0;
  for (const DrafterScore& score : nodes_[node].scores) {
    weight = std::max(weight, score.weight);
  }
  return weight;
}

TokenTree TokenTrie::BestFirst(int64_t max_nodes, Score score) const {
  struct Candidate {
    int32_t node;
    int32_t parent;  // its index in the result
    double score;
    TokenId token;

    // Orders worse candidates first. Ties go to the earlier parent, then the
    // lower token.
    bool operator<(const Candidate& other) const {
      return std::tie(score, other.parent, other.token) <
             std::tie(other.score, parent, token);
    }
  };
  std::priority_queue<Candidate> frontier;
  auto push_children = [&](int32_t parent, int32_t index, double parent_score) {
    for (int32_t child = nodes_[parent].first_child; child != kNone;
         child = nodes_[child].next_sibling) {
      frontier.push({child, index,
                     std::min(parent_score, score(child, parent, parent_score)),
                     nodes_[child].token});
    }
  };

  TokenTree tree = TokenTree::RootOnly(nodes_[0].token);
  tree.provenance = {drafters_};
  push_children(0, 0, 0);
  while (!frontier.empty() && tree.num_nodes() - 1 < max_nodes) {
    const Candidate best = frontier.top();
    frontier.pop();
    const int32_t index =
        tree.Add(best.parent, best.token, static_cast<float>(best.score));
    uint64_t provenance = 0;
    for (const DrafterScore& found : nodes_[best.node].scores) {
      provenance |= uint64_t{1} << found.drafter;
    }
    tree.provenance.push_back(provenance);
    push_children(best.node, index, best.score);
  }
  return tree;
}

TokenTree TokenTrie::Likeliest(int64_t max_nodes) const {
  return BestFirst(max_nodes, [this](int32_t node, int32_t, double) {
    return static_cast<double>(nodes_[node].log_prob());
  });
}

}  // namespace espalier::coordinator
