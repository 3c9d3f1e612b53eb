#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/registry.h"
#include "common/base/status_macros.h"
#include "coordinator/merge/calibration.h"
#include "coordinator/merge/merge_policies.h"
#include "lab/experiments.h"
#include "lab/tree_json.h"

namespace espalier::lab {
namespace {

constexpr char kMergeUsage[] =
    R"(Usage: espalier lab merge < INPUT

The trees of several drafters as the one tree that is verified.

In:  {"trees": [{"tokens": [..], "parents": [..], "log_probs": [..]}, ..],
      "policy": "union", "nodes": N}
     Entry 0 of every tree is the shared root, its parent -1. N: nodes of the
     result at most, root excluded.
Out: {"tokens", "parents", "positions": depths,
      "mask": [[1 where node j is an ancestor of node i, or i], ..],
      "paths": [root to leaf, padded with -1],
      "map": [[the result's node for each node of tree h, or -1], ..],
      "provenance": [[trees that have the node], ..]})";

using coordinator::DraftedTree;
using coordinator::MergePolicy;

absl::StatusOr<TokenTree> Merge(const JsonValue& input,
                                const std::vector<TokenTree>& trees) {
  Registry<MergePolicy> registry("policy");
  coordinator::RegisterMergePolicies(registry);
  ASSIGN_OR_RETURN(const JsonValue policy_field, input.Member("policy"));
  ASSIGN_OR_RETURN(const std::string name, policy_field.Text());
  ASSIGN_OR_RETURN(const std::unique_ptr<MergePolicy> policy,
                   registry.Create(name));
  ASSIGN_OR_RETURN(const JsonValue nodes, input.Member("nodes"));
  ASSIGN_OR_RETURN(const int64_t max_nodes, nodes.Integer(0, 1 << 16));
  std::vector<DraftedTree> drafted;
  for (size_t i = 0; i < trees.size(); ++i) {
    drafted.push_back({.drafter = static_cast<int>(i), .tree = &trees[i]});
  }
  coordinator::Calibration nothing_known;
  const coordinator::SessionCalibration calibration(&nothing_known);
  return policy->Merge({.root = trees[0].tokens[0],
                        .trees = drafted,
                        .max_nodes = max_nodes,
                        .calibration = &calibration});
}

std::vector<std::vector<int>> MaskOf(const TokenTree& tree) {
  const size_t nodes = tree.num_nodes();
  std::vector<std::vector<int>> mask(nodes, std::vector<int>(nodes));
  for (size_t i = 0; i < nodes; ++i) {
    if (i > 0) mask[i] = mask[tree.parents[i]];
    mask[i][i] = 1;
  }
  return mask;
}

std::vector<std::vector<int32_t>> PathsOf(const TokenTree& tree) {
  std::vector<bool> is_leaf(tree.num_nodes(), true);
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    is_leaf[tree.parents[i]] = false;
  }
  std::vector<std::vector<int32_t>> paths;
  size_t longest = 0;
  for (int32_t i = 0; i < tree.num_nodes(); ++i) {
    if (!is_leaf[i]) continue;
    std::vector<int32_t> path = tree.PathTo(i);
    path.insert(path.begin(), 0);
    longest = std::max(longest, path.size());
    paths.push_back(std::move(path));
  }
  for (std::vector<int32_t>& path : paths) path.resize(longest, -1);
  return paths;
}

bool HasTree(const TokenTree& merged, int32_t node, size_t tree) {
  return (merged.provenance[node] >> tree & 1) != 0;
}

// Merged index of each node of tree `h`: follows the same tokens through nodes
// of that tree.
std::vector<int32_t> MapOf(const TokenTree& tree, size_t h,
                           const TokenTree& merged) {
  std::vector<int32_t> map(tree.num_nodes(), -1);
  map[0] = 0;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    if (map[tree.parents[i]] < 0) continue;
    for (int32_t j = 1; j < merged.num_nodes() && map[i] < 0; ++j) {
      if (merged.parents[j] == map[tree.parents[i]] &&
          merged.tokens[j] == tree.tokens[i] && HasTree(merged, j, h)) {
        map[i] = j;
      }
    }
  }
  return map;
}

absl::StatusOr<Json> RunMerge(const JsonValue& input) {
  ASSIGN_OR_RETURN(const std::vector<TokenTree> trees, ReadTrees(input));
  ASSIGN_OR_RETURN(const TokenTree merged, Merge(input, trees));
  Json map = Json::array(), provenance = Json::array();
  for (size_t h = 0; h < trees.size(); ++h) {
    map.push_back(MapOf(trees[h], h, merged));
  }
  for (int32_t i = 0; i < merged.num_nodes(); ++i) {
    Json drafters = Json::array();
    for (size_t h = 0; h < trees.size(); ++h) {
      if (HasTree(merged, i, h)) drafters.push_back(h);
    }
    provenance.push_back(std::move(drafters));
  }
  return Json{{"tokens", merged.tokens},
              {"parents", merged.parents},
              {"positions", merged.Depths()},
              {"mask", MaskOf(merged)},
              {"paths", PathsOf(merged)},
              {"map", std::move(map)},
              {"provenance", std::move(provenance)}};
}

}  // namespace

cli::Command MergeExperiment() {
  return AsCommand({.name = "merge",
                    .summary = "the trees of several drafters as one",
                    .usage = kMergeUsage,
                    .run = RunMerge});
}

}  // namespace espalier::lab
