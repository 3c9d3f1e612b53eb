#ifndef ESPALIER_VERIFIER_DISTRIBUTIONS_DISTRIBUTION_WEIGHTS_H_
#define ESPALIER_VERIFIER_DISTRIBUTIONS_DISTRIBUTION_WEIGHTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// Scales the weights and `outside` so that they sum to 1. Returns the scaled
// `outside`.
inline double Normalize(absl::Span<double> inside, double outside) {
  double total = outside;
  for (double weight : inside) total += weight;
  for (double& weight : inside) weight /= total;
  return outside / total;
}

// A target's distribution as weights in double, for sums and differences of
// distributions. The total is taken once, the weights are not stored. Borrows
// the distribution.
class DistributionWeights {
 public:
  explicit DistributionWeights(const TargetDistribution& distribution)
      : distribution_(distribution) {
    for (int64_t i = 0; i < size(); ++i) total_ += Weight(i);
  }

  int64_t size() const {
    return static_cast<int64_t>(distribution_.log_weights.size());
  }
  TokenId token(int64_t i) const { return distribution_.token(i); }

  // Weight of entry i of the distribution, not normalised.
  static double WeightOf(const TargetDistribution& distribution, int64_t i) {
    return distribution.probabilities.empty()
               ? std::exp(static_cast<double>(distribution.log_weights[i]))
               : distribution.probabilities[i];
  }

  // Probability of entry i of the distribution. Sums to 1 over all entries.
  double Probability(int64_t i) const { return Weight(i) / total_; }

  // Probability of a token; 0 if the distribution does not have it.
  double ProbabilityOf(TokenId token) const {
    if (distribution_.tokens.empty()) return Probability(token);
    const auto found = std::lower_bound(distribution_.tokens.begin(),
                                        distribution_.tokens.end(), token);
    if (found == distribution_.tokens.end() || *found != token) return 0;
    return Probability(found - distribution_.tokens.begin());
  }

 private:
  double Weight(int64_t i) const { return WeightOf(distribution_, i); }

  const TargetDistribution& distribution_;
  double total_ = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_DISTRIBUTIONS_DISTRIBUTION_WEIGHTS_H_
