#ifndef ESPALIER_VERIFIER_FLOW_TREE_VERIFIER_H_
#define ESPALIER_VERIFIER_FLOW_TREE_VERIFIER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "verifier/flow/flow_tree.h"
#include "verifier/flow/single_step.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// Where the accepted path ends, as a law over the nodes given the drafts, and
// for each node the law of the bonus token if it ends there. Columns over
// supports are as in FlowTree.
struct StopLaw {
  std::vector<double> stop;  // [nodes] sum 1
  // The bonus token's law, not normalised: `inside` on the node's support,
  // `outside` times the target's probability on all other tokens.
  std::vector<double> inside;   // [total_support]
  std::vector<double> outside;  // [nodes]

  // No stop anywhere; the bonus token is the target's.
  void Clear(const FlowTree& tree) {
    stop.assign(tree.num_nodes(), 0);
    inside.clear();
    for (int32_t node = 0; node < tree.num_nodes(); ++node) {
      const auto target = tree.target(node);
      inside.insert(inside.end(), target.begin(), target.end());
    }
    outside.assign(tree.num_nodes(), 1);
  }

  // Expected number of accepted tokens.
  double ExpectedAccepted(const FlowTree& tree) const {
    double sum = 0;
    for (int32_t node = 0; node < tree.num_nodes(); ++node) {
      sum += stop[node] * tree.depth(node);
    }
    return sum;
  }
};

// A rule for whole trees with true laws: what it emits has, over the draws of
// the drafter, the law of plain sampling from the target. Nothing is drawn but
// what a rule needs beforehand, so the same code decides rounds, says what it
// would have accepted, and is enumerated. Owns its buffers: not thread-safe,
// and does not allocate once warm.
class TreeVerifier {
 public:
  virtual ~TreeVerifier() = default;

  // Whether it is lossless, and good, for trees of this form. What was drawn
  // must not decide that: a rule is exact on average over all drafts, not over
  // those that it is left with.
  virtual bool Handles(const FlowTree& /*tree*/) const { return true; }

  // Whether it is to see nodes that spell the same text as one.
  virtual bool merges_twins() const { return false; }

  // `round`: keys what is drawn from `chooser`. REQUIRES: Handles(tree), and
  // its target is gathered.
  virtual void Verify(const FlowTree& tree, int64_t round, Chooser& chooser,
                      StopLaw& law) = 0;
};

// ---- Liftings of a single step to trees ------------------------------------

// From the root down, child by child ("TV"). Over the steps: Leviathan et al.
// on chains, SpecTr, SpecInfer's acceptance in a fixed order, Global
// Resolution.
std::unique_ptr<TreeVerifier> NewTopDown(std::unique_ptr<SingleStep> step);

// Layer by layer, a layer's draft mass split by the nodes' inclusion scores.
// "Layer Verification Accelerates Speculative Tree Decoding", Alg. 1 and 2.
std::unique_ptr<TreeVerifier> NewLayered(std::unique_ptr<SingleStep> step);

// The same, but a node is offered all draft mass that the nodes before it in
// the layer have left.
std::unique_ptr<TreeVerifier> NewSequentialLayered(
    std::unique_ptr<SingleStep> step);

// ---- Rules that are no lifting ---------------------------------------------

// Multi-step speculative sampling: from the root down, the draws of a node in
// random order. Miao et al., "SpecInfer", 2024, Alg. 2.
std::unique_ptr<TreeVerifier> NewSpecInfer();

// From the leaves up. Weng et al., "Traversal Verification", arXiv 2505.12398.
std::unique_ptr<TreeVerifier> NewTraversal();

// Chains, as one block; of a tree, the chain of first attempts. Sun et al.,
// "Block Verification", arXiv 2403.10444.
std::unique_ptr<TreeVerifier> NewBlock();

// Independent chains of one length, or up to where what they say ends: picks
// one by what it says, then Block Verification against the law of such a pick.
// Thomas, Pal,
// "Greedy Multi-Path Block Verification", arXiv 2602.16961.
std::unique_ptr<TreeVerifier> NewGreedyMultiPath();

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_TREE_VERIFIER_H_
