#ifndef ESPALIER_DRAFTER_TREES_SAMPLED_TREE_H_
#define ESPALIER_DRAFTER_TREES_SAMPLED_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "drafter/engine/drafter.h"
#include "drafter/engine/option_reader.h"
#include "drafter/trees/level_tree.h"
#include "drafter/trees/tree_builder.h"

namespace espalier::drafter {

// How the children of a node are sampled.
enum class DrawScheme {
  kIndependent,
  // All but the last are the likeliest tokens; the last is sampled from the
  // other tokens (Hu et al., arXiv 2502.18779).
  kGreedyPlusOne,
  // Each is sampled from the tokens that the samples before it left (Gumbel
  // top-k).
  kWithoutReplacement,
};

// The shape of a sampled tree.
struct SampledShape {
  // [depth] samples below each sample of the depth above: with 4, 2, 1 the
  // third layer has eight samples. Empty: the drafter does not sample.
  std::vector<int64_t> branches;
  DrawScheme scheme = DrawScheme::kIndependent;
  int64_t top = 20;        // distributions keep only this many likeliest tokens
  uint64_t noise_key = 0;  // key of the sampling noise; used for nothing else

  // Returns whether trees for requests with these parameters are sampled.
  bool Draws(const SamplingParams& sampling) const {
    return !branches.empty() && !sampling.greedy();
  }
};

// A tree sampled from the drafter's distributions at the request's temperature.
// It carries these distributions, for rules that read them. Equal samples share
// a node. The budget's nodes limit the number of samples, so that neither shape
// nor budget depends on the sampled tokens. The noise is a function of the key,
// the request's seed, the length of the text and the number of the sample, and
// is independent of the verifier's.
class SampledTree final : public LevelTree {
 public:
  // `shape` must outlive the tree. REQUIRES: shape.Draws(view.sampling).
  SampledTree(const SequenceView& view, const SampledShape& shape);

  const Node& node(int32_t index) const override { return nodes_[index]; }
  absl::Span<const int32_t> frontier() const override { return frontier_; }
  // `distributions`: at temperature 1, in any order, shape.top candidates or
  // more.
  void Expand(absl::Span<const std::vector<Candidate>> distributions) override;
  TokenTree Tree() const override { return tree_; }

 private:
  void Advance();
  std::vector<Candidate> Sharpened(std::vector<Candidate> distribution) const;
  void Draw(int32_t parent, absl::Span<const Candidate> possible,
            int64_t count);
  void Find(int32_t parent, const Candidate& candidate, int32_t distribution,
            int64_t samples);
  uint32_t Random(uint32_t end);

  const SampledShape& shape_;
  const DraftBudget budget_;
  const double temperature_;
  const uint64_t key_;     // of the noise
  const uint64_t length_;  // of the text, lookahead included
  TokenTree tree_;
  std::vector<Node> nodes_;        // of the tree
  std::vector<int64_t> visits_;    // [nodes] samples that share the node
  std::vector<int32_t> frontier_;  // nodes of the last layer
  int64_t branches_ = 0;           // of the next layer
  uint32_t num_draws_ = 0;
};

// Returns the tree of a drafter that gives its distributions one by one.
TokenTree BuildSampledTree(const SequenceView& view, const SampledShape& shape,
                           NextTokens next_tokens);

// Reads the options of drafters that can sample: scheme (best_first, the
// default; sampled; greedy+1; without-replacement), branches (as "4,2,1";
// default 2,2,2), top, noise_key (default 0: a random one).
SampledShape ReadSampledShape(OptionReader& reader);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_TREES_SAMPLED_TREE_H_
