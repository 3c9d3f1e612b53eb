#ifndef ESPALIER_VERIFIER_RULES_TOKEN_SAMPLERS_H_
#define ESPALIER_VERIFIER_RULES_TOKEN_SAMPLERS_H_

#include <cstdint>

#include "common/speculation/gumbel_noise.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// The production TokenSampler. SampleToken is the argmax over tokens of
// log-weight + GumbelNoise(seed, position, token), ties to the lower id: exact
// sampling that drafters can predict. SampleIndex is by inverse CDF, from
// Philox keyed by (seed, round, index of the call in the round). SampleOutside
// is an argmax like SampleToken, with separate noise keyed by the round, so
// that a pass can draw it before it is known where the round ends. Make one
// object per round; not thread-safe.
class GumbelSampler final : public TokenSampler {
 public:
  explicit GumbelSampler(uint64_t seed) : seed_(seed) {}

  TokenId SampleToken(int64_t position,
                      const TargetDistribution& distribution) override;

  int64_t SampleIndex(int64_t round, absl::Span<const double> weights) override;

  TokenId SampleOutside(int64_t round,
                        const TargetDistribution& distribution) override;

  // Number of draws so far that rounding could have decided (near_tie.h).
  int32_t near_ties() const { return near_ties_; }

 private:
  TokenId Argmax(const GumbelNoise& noise,
                 const TargetDistribution& distribution);

  uint64_t seed_;
  uint32_t num_choices_ = 0;
  int32_t near_ties_ = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_RULES_TOKEN_SAMPLERS_H_
