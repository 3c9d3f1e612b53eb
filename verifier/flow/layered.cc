#include <utility>

#include "verifier/flow/layer_scores.h"
#include "verifier/flow/negligible.h"

namespace espalier::verifier {
namespace {

class Layered final : public TreeVerifier {
 public:
  explicit Layered(std::unique_ptr<SingleStep> step)
      : scores_(std::move(step)) {}

  void Verify(const FlowTree& tree, int64_t, TokenSampler&,
              StopDistribution& distribution) override {
    scores_.Begin(tree);
    for (int32_t depth = 0; depth < tree.num_layers(); ++depth) {
      ScoreLayer(tree, depth);
    }
    scores_.StopFromBelow(distribution);
  }

 private:
  // Each node is offered its share of the total inclusion of the nodes with
  // children.
  void ScoreLayer(const FlowTree& tree, int32_t depth) {
    double all = 0;
    for (int32_t node : tree.layer(depth)) {
      if (!tree.is_leaf(node)) all += scores_.inclusion(node);
    }
    for (int32_t node : tree.layer(depth)) {
      const double inclusion = scores_.inclusion(node);
      if (tree.is_leaf(node) || inclusion <= kNegligible) continue;
      scores_.Score(node, inclusion / all, inclusion / all);
    }
  }

  LayerScores scores_;
};

}  // namespace

std::unique_ptr<TreeVerifier> NewLayered(std::unique_ptr<SingleStep> step) {
  return std::make_unique<Layered>(std::move(step));
}

}  // namespace espalier::verifier
