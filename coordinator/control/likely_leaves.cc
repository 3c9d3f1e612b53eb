#include "coordinator/control/likely_leaves.h"

#include <algorithm>

namespace espalier::coordinator {

std::vector<std::vector<TokenId>> LikelyLeaves(const TokenTree& tree) {
  std::vector<bool> is_leaf(tree.num_nodes(), true);
  is_leaf[0] = false;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    is_leaf[tree.parents[i]] = false;
  }
  std::vector<int32_t> leaves;
  for (int32_t i = 1; i < tree.num_nodes(); ++i) {
    if (is_leaf[i]) leaves.push_back(i);
  }
  std::stable_sort(leaves.begin(), leaves.end(), [&](int32_t a, int32_t b) {
    return tree.log_probs[a] > tree.log_probs[b];
  });
  std::vector<std::vector<TokenId>> paths;
  for (int32_t leaf : leaves) {
    std::vector<TokenId>& path = paths.emplace_back();
    for (int32_t node : tree.PathTo(leaf)) path.push_back(tree.tokens[node]);
  }
  return paths;
}

}  // namespace espalier::coordinator
