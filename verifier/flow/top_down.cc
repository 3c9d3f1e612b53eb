#include "verifier/flow/top_down.h"

#include <algorithm>
#include <utility>

namespace espalier::verifier {
namespace {

class TopDown final : public TreeVerifier {
 public:
  explicit TopDown(std::unique_ptr<SingleStep> step)
      : planner_(std::move(step)) {}

  void Verify(const FlowTree& tree, int64_t, TokenSampler&,
              StopDistribution& distribution) override {
    const auto plan = [&](int32_t node) -> const NodePlan& {
      return planner_.Plan(tree, node, /*scale=*/1);
    };
    WalkPlansDown(tree, plan, reach_, distribution);
  }

 private:
  NodePlanner planner_;
  std::vector<double> reach_;
};

}  // namespace

void WalkPlansDown(const FlowTree& tree,
                   absl::FunctionRef<const NodePlan&(int32_t node)> plan,
                   std::vector<double>& reach, StopDistribution& distribution) {
  distribution.Clear(tree);
  reach.assign(tree.num_nodes(), 0);
  reach[0] = 1;
  for (int32_t node = 0; node < tree.num_nodes(); ++node) {
    distribution.stop[node] = reach[node];
    if (reach[node] == 0 || tree.is_leaf(node)) continue;
    const NodePlan& planned = plan(node);
    for (const auto& [child, accept] : planned.accept()) {
      reach[child] += reach[node] * accept;
    }
    distribution.stop[node] *= std::max(0.0, 1 - planned.accept_sum());
    const auto left = tree.OfNode(distribution.inside, node);
    for (size_t x = 0; x < left.size(); ++x) {
      left[x] = std::max(0.0, left[x] - planned.flow()[x]);
    }
  }
}

std::unique_ptr<TreeVerifier> NewTopDown(std::unique_ptr<SingleStep> step) {
  return std::make_unique<TopDown>(std::move(step));
}

}  // namespace espalier::verifier
