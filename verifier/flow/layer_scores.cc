#include "verifier/flow/layer_scores.h"

#include <algorithm>
#include <numeric>

namespace espalier::verifier {

void LayerScores::Begin(const FlowTree& tree) {
  tree_ = &tree;
  inclusion_.assign(tree.num_nodes(), 0);
  inclusion_[0] = 1;
  flow_.assign(tree.total_support(), 0);
}

LayerScores::Sent LayerScores::Score(int32_t node, double source,
                                     double realised) {
  const double scale = std::min(1.0, inclusion_[node] / source);
  const NodePlan& plan = planner_.Plan(*tree_, node, scale);
  for (const auto& [child, accept] : plan.accept()) {
    inclusion_[child] += realised * accept;
  }
  Sent sent = {.accepted = plan.accept_sum()};
  const auto flow = tree_->OfNode(flow_, node);
  const auto target = tree_->target(node);
  for (size_t x = 0; x < flow.size(); ++x) {
    flow[x] = std::min(source * plan.flow()[x], inclusion_[node] * target[x]);
    sent.expected += flow[x];
  }
  return sent;
}

// The stop mass of a node is the target mass through it that the flow does not
// cover. It is weighted against the expected mass of stops in this layer and
// above: all but the layer's outflow, which stops below.
void LayerScores::StopFromBelow(StopDistribution& distribution) const {
  distribution.Clear(*tree_);
  double reach = 1;  // probability that no deeper layer stops
  for (int32_t depth = tree_->num_layers() - 1; depth >= 0; --depth) {
    double stops = 0, outflow = 0;
    for (int32_t node : tree_->layer(depth)) {
      const auto flow = tree_->OfNode(flow_, node);
      const auto left = tree_->OfNode(distribution.inside, node);
      for (size_t x = 0; x < flow.size(); ++x) {
        left[x] = std::max(0.0, inclusion_[node] * left[x] - flow[x]);
      }
      distribution.outside[node] = inclusion_[node];
      const double sent = std::accumulate(flow.begin(), flow.end(), 0.0);
      outflow += sent;
      distribution.stop[node] = std::max(0.0, inclusion_[node] - sent);
      stops += distribution.stop[node];
    }
    const double all = depth == 0 ? stops : std::max(stops, 1 - outflow);
    const double share = all > 0 ? reach / all : 0;
    for (int32_t node : tree_->layer(depth)) distribution.stop[node] *= share;
    reach = std::max(0.0, reach - stops * share);
  }
}

}  // namespace espalier::verifier
