#include "verifier/flow/block_chain.h"

namespace espalier::verifier {
namespace {

class Block final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t, TokenSampler&,
              StopDistribution& distribution) override {
    chain_.Begin(tree);
    while (!tree.is_leaf(chain_.last_node())) {
      const int32_t node = chain_.last_node();
      const auto& draw = tree.draws(node)[0];
      chain_.Append(draw, tree.DistributionOf(draw));
    }
    chain_.StopFromBelow(distribution);
  }

 private:
  BlockChain chain_;
};

}  // namespace

std::unique_ptr<TreeVerifier> NewBlock() { return std::make_unique<Block>(); }

}  // namespace espalier::verifier
