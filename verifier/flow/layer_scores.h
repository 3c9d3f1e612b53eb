#ifndef ESPALIER_VERIFIER_FLOW_LAYER_SCORES_H_
#define ESPALIER_VERIFIER_FLOW_LAYER_SCORES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "verifier/flow/flow_tree.h"
#include "verifier/flow/node_plan.h"
#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {

// Layer Verification (seed paper, Sec. 4): inclusion scores from the root down,
// layer by layer, then stops from the last layer up. The lifting decides how a
// layer's draft mass is divided among its nodes.
class LayerScores {
 public:
  explicit LayerScores(std::unique_ptr<SingleStep> step)
      : planner_(std::move(step)) {}

  // Starts with the root, whose inclusion score is 1.
  void Begin(const FlowTree& tree);

  // Probability that the accepted path goes through the node, given the drafts
  // down to it; the sum over a layer is at most 1.
  double inclusion(int32_t node) const { return inclusion_[node]; }

  struct Sent {
    double expected = 0;  // mass that flows to children, mean over drafts
    double accepted = 0;  // sum of the plan's acceptance for the current draft
  };
  // Plans a node and scores its children. `source` is the draft mass offered to
  // the node, in expectation over drafts; `realised` is the same for the
  // current draft. The target may take inclusion * q. REQUIRES: inclusion(node)
  // <= source.
  Sent Score(int32_t node, double source, double realised);

  // Alg. 2 of the paper, over all outcomes. REQUIRES: all nodes with children
  // were scored, except those for which no mass was left.
  void StopFromBelow(StopDistribution& distribution) const;

 private:
  const FlowTree* tree_ = nullptr;
  NodePlanner planner_;
  std::vector<double> inclusion_;  // [nodes]
  std::vector<double> flow_;       // [total_support]
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_LAYER_SCORES_H_
