#include "drafter/heads/dynamic_tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/check.h"

namespace espalier::drafter {

DynamicTree::DynamicTree(TokenId root, const DraftBudget& budget,
                         const Shape& shape)
    : budget_(budget), shape_(shape), nodes_{{{.token = root}}} {
  if (budget.max_nodes > 0 && budget.max_depth > 0) frontier_ = {0};
}

void DynamicTree::Expand(absl::Span<const std::vector<Candidate>> children) {
  ESPALIER_CHECK(children.size() == frontier_.size());
  const int32_t first = static_cast<int32_t>(nodes_.size());
  for (size_t i = 0; i < frontier_.size(); ++i) {
    const Node parent = nodes_[frontier_[i]];
    for (const Candidate& child : children[i]) {
      nodes_.push_back({{.token = child.token,
                         .parent = frontier_[i],
                         .depth = parent.depth + 1},
                        parent.score + child.log_prob});
    }
  }
  frontier_.clear();
  if (first == static_cast<int32_t>(nodes_.size()) ||
      nodes_.back().depth >= budget_.max_depth) {
    return;
  }
  // A child of a node that is not among the best max_nodes, or is the last of
  // them, would rank after all of them.
  const std::vector<int32_t> best = Ranked(1);
  const bool full = static_cast<int64_t>(best.size()) >= budget_.max_nodes;
  const double least = full ? nodes_[best[budget_.max_nodes - 1]].score : 0;
  for (int32_t index : best) {
    if (index < first) continue;
    if (full && nodes_[index].score <= least) break;
    if (static_cast<int64_t>(frontier_.size()) == shape_.width) break;
    frontier_.push_back(index);
  }
  if (Reach() < shape_.least_reach) frontier_.clear();
}

double DynamicTree::Reach() const {
  double reach = 0;
  for (int32_t index : frontier_) reach += std::exp(nodes_[index].score);
  return reach;
}

TokenTree DynamicTree::Tree() const {
  TokenTree tree = TokenTree::RootOnly(nodes_[0].token);
  std::vector<int32_t> index_in_tree(nodes_.size());
  std::vector<int32_t> best = Ranked(1);
  best.resize(std::min<size_t>(best.size(), budget_.max_nodes));
  for (int32_t index : best) {
    const Node& node = nodes_[index];
    index_in_tree[index] = tree.Add(index_in_tree[node.parent], node.token,
                                    static_cast<float>(node.score));
  }
  return tree;
}

std::vector<int32_t> DynamicTree::Ranked(int32_t first) const {
  std::vector<int32_t> ranked(nodes_.size() - first);
  std::iota(ranked.begin(), ranked.end(), first);
  std::stable_sort(ranked.begin(), ranked.end(), [this](int32_t a, int32_t b) {
    return nodes_[a].score > nodes_[b].score;
  });
  return ranked;
}

}  // namespace espalier::drafter
