#ifndef ESPALIER_DRAFTER_NGRAM_BACKOFF_DISTRIBUTION_H_
#define ESPALIER_DRAFTER_NGRAM_BACKOFF_DISTRIBUTION_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/speculation/types.h"
#include "drafter/ngram/successor_counts.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// A distribution over the next token from counts after contexts of growing
// length: Witten-Bell interpolation (Witten and Bell, "The zero-frequency
// problem", IEEE Trans. IT 37(4), 1991, method C). A context seen `total` times
// with `distinct` successors keeps total / (total + distinct) of the mass and
// leaves the rest to the next shorter context, so longer and steadier matches
// weigh more. What the shortest context leaves is the mass of tokens never
// seen.
class BackoffDistribution {
 public:
  // Adds the next longer context. REQUIRES: counts.total > 0.
  void Refine(const SuccessorCounts& counts);

  // Returns all tokens seen in any context, in no particular order.
  std::vector<Candidate> Candidates() const;

 private:
  absl::flat_hash_map<TokenId, double> probabilities_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_BACKOFF_DISTRIBUTION_H_
