#ifndef ESPALIER_COORDINATOR_CONTROL_PROBE_BUDGET_H_
#define ESPALIER_COORDINATOR_CONTROL_PROBE_BUDGET_H_

#include <algorithm>

namespace espalier::coordinator {

// Limits the time that the probes of a drafter take on the verifier's cores, as
// all sessions lose it: to a small share of the tokens that they emit. Lives on
// the executor.
class ProbeBudget {
 public:
  // Of all drafters together.
  static constexpr double kShare = 1.0 / 256;

  // The sessions emitted tokens.
  void Earn(double tokens, int num_drafters) {
    balance_ = std::min(balance_ + kShare / num_drafters * tokens, kMostSaved);
  }
  // A probe costs all sessions so many tokens. Negative: less than was thought.
  void Spend(double tokens) {
    balance_ = std::clamp(balance_ - tokens, -kMostOwed, kMostSaved);
  }
  // Whether a probe may begin. One that costs much leaves a debt to later ones.
  bool Allows(double cost) const { return cost <= 0 || balance_ >= 0; }

 private:
  static constexpr double kMostSaved = 1;  // tokens
  static constexpr double kMostOwed = 4;

  double balance_ = kMostSaved;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_PROBE_BUDGET_H_
