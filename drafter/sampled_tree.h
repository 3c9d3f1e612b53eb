#ifndef ESPALIER_DRAFTER_SAMPLED_TREE_H_
#define ESPALIER_DRAFTER_SAMPLED_TREE_H_

#include <cstdint>
#include <vector>

#include "common/spec/token_tree.h"
#include "drafter/drafter.h"
#include "drafter/option_reader.h"
#include "drafter/tree_builder.h"

namespace espalier::drafter {

// How a tree of draws grows.
struct SampledShape {
  // [depth] attempts at a child below each attempt of the depth above: 4, 2, 1
  // are eight draws for the third layer. Empty: the drafter does not sample.
  std::vector<int64_t> branches;
  // Of a node's attempts all but the last are its likeliest tokens, and the
  // last is drawn from the others (Hu et al., arXiv 2502.18779).
  bool greedy_plus_one = false;
  int64_t top = 20;        // likeliest tokens that a law is cut to
  uint64_t noise_key = 0;  // of the draws; nobody else's
};

// A tree of independent draws from the drafter's laws at the request's
// temperature, with these laws, for rules that read them. Draws that agree
// share a node. Attempts are as many as the budget's nodes at most, so neither
// shape nor budget looks at what was drawn. The noise is a function of the key,
// the request's seed, the committed length and the number of the draw, and has
// nothing to do with the verifier's. REQUIRES: the target samples.
TokenTree BuildSampledTree(const SequenceView& view, const SampledShape& shape,
                           NextTokens next_tokens);

// The options of drafters that can sample: scheme (best_first, the default;
// sampled; greedy+1), branches (as "4,2,1"; default 2,2,2), top, noise_key
// (default 0: a random one).
SampledShape ReadSampledShape(OptionReader& reader);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_SAMPLED_TREE_H_
