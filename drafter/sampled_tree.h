#ifndef ESPALIER_DRAFTER_SAMPLED_TREE_H_
#define ESPALIER_DRAFTER_SAMPLED_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"
#include "drafter/drafter.h"
#include "drafter/level_tree.h"
#include "drafter/option_reader.h"
#include "drafter/tree_builder.h"

namespace espalier::drafter {

// How the attempts at a node's children are made.
enum class DrawScheme {
  kIndependent,
  // All but the last are the likeliest tokens, and the last is drawn from the
  // others (Hu et al., arXiv 2502.18779).
  kGreedyPlusOne,
  // Each is drawn from what those before it have left (Gumbel top-k).
  kWithoutReplacement,
};

// How a tree of draws grows.
struct SampledShape {
  // [depth] attempts at a child below each attempt of the depth above: 4, 2, 1
  // are eight draws for the third layer. Empty: the drafter does not sample.
  std::vector<int64_t> branches;
  DrawScheme scheme = DrawScheme::kIndependent;
  int64_t top = 20;        // likeliest tokens that a law is cut to
  uint64_t noise_key = 0;  // of the draws; nobody else's

  // Whether trees for such requests are drawn.
  bool Draws(const SamplingParams& sampling) const {
    return !branches.empty() && !sampling.greedy();
  }
};

// A tree of draws from the drafter's laws at the request's temperature, with
// these laws, for rules that read them. Draws that agree share a node. Attempts
// are as many as the budget's nodes at most, so neither shape nor budget looks
// at what was drawn. The noise is a function of the key, the request's seed,
// the committed length and the number of the draw, and has nothing to do with
// the verifier's.
class SampledTree final : public LevelTree {
 public:
  // `shape` must outlive the tree. REQUIRES: shape.Draws(view.sampling).
  SampledTree(const SequenceView& view, const SampledShape& shape);

  const Node& node(int32_t index) const override { return nodes_[index]; }
  absl::Span<const int32_t> frontier() const override { return frontier_; }
  // `laws`: at temperature 1, in any order, shape.top candidates or more.
  void Expand(absl::Span<const std::vector<Candidate>> laws) override;
  TokenTree Tree() const override { return tree_; }

 private:
  void Advance();
  std::vector<Candidate> Sharpened(std::vector<Candidate> law) const;
  void Draw(int32_t parent, absl::Span<const Candidate> possible,
            int64_t count);
  void Find(int32_t parent, const Candidate& candidate, int32_t law,
            int64_t attempts);
  uint32_t Random(uint32_t end);

  const SampledShape& shape_;
  const DraftBudget budget_;
  const double temperature_;
  const uint64_t key_;     // of the noise
  const uint64_t length_;  // committed, or guessed to be
  TokenTree tree_;
  std::vector<Node> nodes_;        // of the tree
  std::vector<int64_t> visits_;    // [nodes] attempts that found the node
  std::vector<int32_t> frontier_;  // nodes of the last layer
  int64_t branches_ = 0;           // of the layer to come
  uint32_t num_draws_ = 0;
};

// The tree of a drafter whose laws can be had one by one.
TokenTree BuildSampledTree(const SequenceView& view, const SampledShape& shape,
                           NextTokens next_tokens);

// The options of drafters that can sample: scheme (best_first, the default;
// sampled; greedy+1; without-replacement), branches (as "4,2,1"; default
// 2,2,2), top, noise_key (default 0: a random one).
SampledShape ReadSampledShape(OptionReader& reader);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_SAMPLED_TREE_H_
