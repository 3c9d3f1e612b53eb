#ifndef ESPALIER_VERIFIER_CHOOSERS_H_
#define ESPALIER_VERIFIER_CHOOSERS_H_

#include <cstdint>

#include "common/spec/gumbel_noise.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// The production Chooser. A draw is the argmax over tokens of log-weight +
// GumbelNoise(seed, position, token), ties to the lower id: exact, and one that
// drafters can foresee. A choice is by inverse CDF, from Philox keyed by (seed,
// round, number of the choice in it). A draw outside is an argmax like a draw,
// with a noise of its own that is keyed by the round, so that a pass can make
// it before anyone knows where the round ends. One per round; not thread-safe.
class GumbelChooser final : public Chooser {
 public:
  explicit GumbelChooser(uint64_t seed) : seed_(seed) {}

  TokenId Draw(int64_t position, const TargetLaw& law) override;

  int64_t Choose(int64_t round, absl::Span<const double> weights) override;

  TokenId DrawOutside(int64_t round, const TargetLaw& law) override;

  // Draws so far that rounding could have decided (near_tie.h).
  int32_t near_ties() const { return near_ties_; }

 private:
  TokenId Argmax(const GumbelNoise& noise, const TargetLaw& law);

  uint64_t seed_;
  uint32_t num_choices_ = 0;
  int32_t near_ties_ = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_CHOOSERS_H_
