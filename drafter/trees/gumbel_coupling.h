#ifndef ESPALIER_DRAFTER_TREES_GUMBEL_COUPLING_H_
#define ESPALIER_DRAFTER_TREES_GUMBEL_COUPLING_H_

#include <cstdint>
#include <vector>

#include "common/speculation/sampling_params.h"
#include "common/speculation/types.h"

namespace espalier::drafter {

// A possible next token. The candidates of a context have distinct tokens and
// together at most mass 1; the rest is the mass of the tokens not listed.
struct Candidate {
  TokenId token = 0;
  double log_prob = 0;  // <= 0, finite

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// Turns a drafter's distribution (at temperature 1) over the token at
// `position` into the chance that the target emits each candidate there, and
// sorts: likeliest first, ties to the lower token id.
//
// A greedy target: the distribution itself. A sampling target emits the argmax
// of log q / T + g with noise g that is known here (the coupled walk; Daliri,
// Musco, Suresh, arXiv 2408.07978). If the drafter's log p errs by Gumbel noise
// of scale `noise_scale`, that argmax is x with probability
//   softmax_x((log p(x) + T g(x)) / noise_scale).
// The unlisted tokens count as one more candidate: the best perturbed score of
// many tokens of total mass r is distributed like that of one token of mass r,
// and as their noise is not computed, its median is used.
void ApplyGumbelCoupling(const SamplingParams& sampling, int64_t position,
                         double noise_scale,
                         std::vector<Candidate>& candidates);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_TREES_GUMBEL_COUPLING_H_
