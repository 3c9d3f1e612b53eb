#ifndef ESPALIER_VERIFIER_LAW_WEIGHTS_H_
#define ESPALIER_VERIFIER_LAW_WEIGHTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// Scales weights and what is outside of them so that they sum to 1. Returns the
// latter.
inline double Normalize(absl::Span<double> inside, double outside) {
  double total = outside;
  for (double weight : inside) total += weight;
  for (double& weight : inside) weight /= total;
  return outside / total;
}

// A target's law as weights in double, for sums and differences of laws. The
// total is taken once, the weights are not stored. Borrows the law.
class LawWeights {
 public:
  explicit LawWeights(const TargetLaw& law) : law_(law) {
    for (int64_t i = 0; i < size(); ++i) total_ += Weight(i);
  }

  int64_t size() const { return static_cast<int64_t>(law_.log_weights.size()); }
  TokenId token(int64_t i) const { return law_.token(i); }

  // Of entry i of the law, not normalised.
  static double WeightOf(const TargetLaw& law, int64_t i) {
    return law.probabilities.empty()
               ? std::exp(static_cast<double>(law.log_weights[i]))
               : law.probabilities[i];
  }

  // Of entry i of the law. Sums to 1 over all.
  double Probability(int64_t i) const { return Weight(i) / total_; }

  // Of a token, which may be none of the law's.
  double ProbabilityOf(TokenId token) const {
    if (law_.tokens.empty()) return Probability(token);
    const auto found =
        std::lower_bound(law_.tokens.begin(), law_.tokens.end(), token);
    if (found == law_.tokens.end() || *found != token) return 0;
    return Probability(found - law_.tokens.begin());
  }

 private:
  double Weight(int64_t i) const { return WeightOf(law_, i); }

  const TargetLaw& law_;
  double total_ = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_LAW_WEIGHTS_H_
