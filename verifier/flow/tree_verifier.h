#ifndef ESPALIER_VERIFIER_FLOW_TREE_VERIFIER_H_
#define ESPALIER_VERIFIER_FLOW_TREE_VERIFIER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "verifier/flow/flow_tree.h"
#include "verifier/flow/single_step.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// The end of the accepted path, as a distribution over the nodes given the
// drafts, and for each node the distribution of the bonus token if it ends
// there. Columns over supports are as in FlowTree.
struct StopDistribution {
  std::vector<double> stop;  // [nodes] sum 1
  // The bonus token's distribution, not normalised: `inside` on the node's
  // support, `outside` times the target's probability on all other tokens.
  std::vector<double> inside;   // [total_support]
  std::vector<double> outside;  // [nodes]

  // Sets all stop probabilities to 0; the bonus token is from the target.
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

// A rule for whole trees with true distributions: what it emits has, over the
// draws of the drafter, the distribution of plain sampling from the target.
// Nothing is sampled but what a rule needs beforehand, so the same code decides
// rounds, says what it would have accepted, and is enumerated. Owns its
// buffers: not thread-safe, and does not allocate once warm.
class TreeVerifier {
 public:
  virtual ~TreeVerifier() = default;

  // Returns whether the verifier is lossless, and effective, for trees of this
  // shape. The answer must not depend on the sampled tokens: a rule is exact on
  // average over all drafts, not over a subset selected by their tokens.
  virtual bool Handles(const FlowTree& /*tree*/) const { return true; }

  // Returns whether nodes with the same path of tokens are merged before
  // Verify.
  virtual bool merges_duplicates() const { return false; }

  // `round` keys the random numbers from `sampler`. REQUIRES: Handles(tree),
  // and its target was gathered.
  virtual void Verify(const FlowTree& tree, int64_t round,
                      TokenSampler& sampler,
                      StopDistribution& distribution) = 0;
};

// ---- Liftings of a single step to trees ------------------------------------

// Makes a verifier that works from the root down, child by child ("TV"). Over
// the steps: Leviathan et al. on chains, SpecTr, SpecInfer's acceptance in a
// fixed order, Global Resolution.
std::unique_ptr<TreeVerifier> NewTopDown(std::unique_ptr<SingleStep> step);

// Layer by layer, a layer's draft mass split by the nodes' inclusion scores.
// "Layer Verification Accelerates Speculative Tree Decoding", Alg. 1 and 2.
std::unique_ptr<TreeVerifier> NewLayered(std::unique_ptr<SingleStep> step);

// The same, but each node is offered all draft mass that the nodes before it in
// the layer leave.
std::unique_ptr<TreeVerifier> NewSequentialLayered(
    std::unique_ptr<SingleStep> step);

// ---- Rules that are not liftings --------------------------------------------

// Multi-step speculative sampling: from the root down, the draws of a node in
// random order. Miao et al., "SpecInfer", 2024, Alg. 2.
std::unique_ptr<TreeVerifier> NewSpecInfer();

// Makes a verifier that works from the leaves up. Weng et al., "Traversal
// Verification", arXiv 2505.12398.
std::unique_ptr<TreeVerifier> NewTraversal();

// Samples the target's token and descends to a child with that token, whatever
// the child was sampled from: the walk on drafts made without knowledge of its
// noise.
std::unique_ptr<TreeVerifier> NewTargetSampling();

// Verifies a chain as one block; of a tree, the chain of first draws. Sun et
// al., "Block Verification", arXiv 2403.10444.
std::unique_ptr<TreeVerifier> NewBlock();

// Makes a verifier for independent chains of one length, or up to where the
// text ends: picks one chain by its tokens, then runs Block Verification
// against the distribution of the picked chain. Thomas, Pal, "Greedy Multi-Path
// Block Verification", arXiv 2602.16961.
std::unique_ptr<TreeVerifier> NewGreedyMultiPath();

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_TREE_VERIFIER_H_
