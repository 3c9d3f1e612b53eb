#include <cstdint>
#include <memory>
#include <vector>

#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {
namespace {

// Reads no draft distribution, so it is exact for every tree.
class TargetSampling final : public TreeVerifier {
 public:
  bool merges_duplicates() const override { return true; }

  void Verify(const FlowTree& tree, int64_t /*round*/,
              TokenSampler& /*sampler*/,
              StopDistribution& distribution) override {
    distribution.Clear(tree);
    reach_.assign(tree.num_nodes(), 0);
    reach_[0] = 1;
    for (int32_t node = 0; node < tree.num_nodes(); ++node) {
      const auto bonus = tree.OfNode(distribution.inside, node);
      for (const FlowTree::Draw& draw : tree.draws(node)) {
        // Equal for all draws of the child.
        reach_[draw.child] = reach_[node] * tree.target(node)[draw.entry];
        bonus[draw.entry] = 0;
      }
      double stays = tree.target_outside(node);
      for (double mass : bonus) stays += mass;
      distribution.stop[node] = reach_[node] * stays;
    }
  }

 private:
  std::vector<double> reach_;  // [nodes] probability that the text passes it
};

}  // namespace

std::unique_ptr<TreeVerifier> NewTargetSampling() {
  return std::make_unique<TargetSampling>();
}

}  // namespace espalier::verifier
