#include <algorithm>
#include <utility>
#include <vector>

#include "verifier/flow/layer_scores.h"
#include "verifier/flow/negligible.h"

namespace espalier::verifier {
namespace {

// Stick-breaking instead of Layer Verification's split: with all = sum of the
// inclusions, inclusion / all <= inclusion + (1 - all) <= the mass left at the
// node's turn, so no node is offered less. As the drafts of a layer's nodes are
// independent, this also holds for the remaining mass averaged over drafts.
class SequentialLayered final : public TreeVerifier {
 public:
  explicit SequentialLayered(std::unique_ptr<SingleStep> step)
      : scores_(std::move(step)) {}

  void Verify(const FlowTree& tree, int64_t, TokenSampler&,
              StopDistribution& distribution) override {
    scores_.Begin(tree);
    for (int32_t depth = 0; depth < tree.num_layers(); ++depth) {
      RankLayer(tree, depth);
      ScoreLayer();
    }
    scores_.StopFromBelow(distribution);
  }

 private:
  // The likeliest first; this order is known before anything below is sampled.
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
    double expected = 1, realised = 1;  // remaining draft mass
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
