#ifndef ESPALIER_VERIFIER_FLOW_BLOCK_CHAIN_H_
#define ESPALIER_VERIFIER_FLOW_BLOCK_CHAIN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {

// Block Verification of one path of a tree, from the root to a leaf
// (arXiv 2403.10444, Alg. 2).
class BlockChain {
 public:
  void Begin(const FlowTree& tree);

  // Extends the path by `draw`, a draw at its last node (at first the root).
  // `distribution` is the one that its token was sampled from, over that node's
  // support.
  void Append(const FlowTree::Draw& draw,
              const FlowTree::Distribution& distribution);

  // Returns the end of the path so far.
  int32_t last_node() const { return steps_.back().node; }

  // Nodes below the end of the path are not accepted.
  void StopFromBelow(StopDistribution& distribution) const;

 private:
  struct Step {
    int32_t node = 0;
    double inclusion = 1;  // of the node
    int32_t distribution_begin = 0,
            distribution_end = 0;  // of its child, in the columns below
  };

  const FlowTree* tree_ = nullptr;
  std::vector<Step> steps_;  // root first
  std::vector<int32_t> entries_;
  std::vector<double> probabilities_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_BLOCK_CHAIN_H_
