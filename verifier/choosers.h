#ifndef ESPALIER_VERIFIER_CHOOSERS_H_
#define ESPALIER_VERIFIER_CHOOSERS_H_

#include <cstdint>

#include "verifier/verification_rule.h"

namespace espalier::verifier {

// The production Chooser: argmax over tokens of log-weight + GumbelNoise(seed,
// position, token), ties to the lower id. An exact draw from the law, and one
// that drafters can foresee. One per round; not thread-safe.
class GumbelChooser final : public Chooser {
 public:
  explicit GumbelChooser(uint64_t seed) : seed_(seed) {}

  TokenId Draw(int64_t position, const TargetLaw& law) override;

  // Draws so far that rounding could have decided (near_tie.h).
  int32_t near_ties() const { return near_ties_; }

 private:
  uint64_t seed_;
  int32_t near_ties_ = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_CHOOSERS_H_
