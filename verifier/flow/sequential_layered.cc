#include <algorithm>
#include <utility>
#include <vector>

#include "verifier/flow/layer_scores.h"
#include "verifier/flow/negligible.h"

namespace espalier::verifier {
namespace {

// Stick-breaking instead of Layer Verification's split: with all = sum of the
// inclusions, inclusion / all <= inclusion + (1 - all) <= what is left when the
// node's turn comes, so no node is offered less, and as drafts of nodes of a
// layer are independent, what is left is so on average of the drafts, too.
class SequentialLayered final : public TreeVerifier {
 public:
  explicit SequentialLayered(std::unique_ptr<SingleStep> step)
      : scores_(std::move(step)) {}

  void Verify(const FlowTree& tree, int64_t, Chooser&, StopLaw& law) override {
    scores_.Begin(tree);
    for (int32_t depth = 0; depth < tree.num_layers(); ++depth) {
      RankLayer(tree, depth);
      ScoreLayer();
    }
    scores_.StopFromBelow(law);
  }

 private:
  // The likeliest first: known before anything below them is drawn.
  void RankLayer(const FlowTree& tree, int32_t depth) {
    ranked_.clear();
    for (int32_t node : tree.layer(depth)) {
      const double inclusion = scores_.inclusion(node);
      if (tree.is_leaf(node) || inclusion <= kNegligible) continue;
      ranked_.push_back({-inclusion, node});
    }
    std::sort(ranked_.begin(), ranked_.end());
  }

  void ScoreLayer() {
    double expected = 1, realised = 1;  // draft mass that is left
    for (const auto& [minus_inclusion, node] : ranked_) {
      if (expected <= kNegligible) return;
      const auto sent = scores_.Score(node, expected, realised);
      expected -= sent.expected;
      realised *= std::max(0.0, 1 - sent.accepted);
    }
  }

  LayerScores scores_;
  std::vector<std::pair<double, int32_t>> ranked_;  // (-inclusion, node)
};

}  // namespace

std::unique_ptr<TreeVerifier> NewSequentialLayered(
    std::unique_ptr<SingleStep> step) {
  return std::make_unique<SequentialLayered>(std::move(step));
}

}  // namespace espalier::verifier
