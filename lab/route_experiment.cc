#include <algorithm>
#include <vector>

#include "common/base/status_macros.h"
#include "coordinator/merge/merge_policies.h"
#include "lab/experiments.h"
#include "lab/tree_json.h"

namespace espalier::lab {
namespace {

constexpr char kRouteUsage[] =
    R"(Usage: espalier lab route < INPUT

Which of several drafters' trees the strategy "route" verifies.

In:  {"trees": [{"tokens": [..], "parents": [..], "log_probs": [..]}, ..]}
     log_probs of paths; entry 0 of every tree is the shared root.
Out: {"scores": [the mean chance of each tree's nodes], "chosen": index})";

absl::StatusOr<Json> RunRoute(const JsonValue& input) {
  ASSIGN_OR_RETURN(const std::vector<TokenTree> trees, ReadTrees(input));
  std::vector<double> scores;
  for (const TokenTree& tree : trees) {
    scores.push_back(coordinator::RouteScore(tree));
  }
  const auto chosen = std::max_element(scores.begin(), scores.end());
  return Json{{"scores", scores}, {"chosen", chosen - scores.begin()}};
}

}  // namespace

cli::Command RouteExperiment() {
  return AsCommand({.name = "route",
                    .summary = "which drafter is surest of its tree",
                    .usage = kRouteUsage,
                    .run = RunRoute});
}

}  // namespace espalier::lab
