#include "verifier/rules/token_samplers.h"

#include <algorithm>
#include <numeric>

#include "common/speculation/noisy_argmax.h"

namespace espalier::verifier {
namespace {

// Separates SampleIndex from other uses of the same seed.
constexpr uint32_t kPurposeChoice = 0x43484f49;

// Uniform in (0, 1), 52 bits.
double Uniform(uint64_t seed, int64_t round, uint32_t number) {
  const auto key = static_cast<uint64_t>(round);
  const auto words = Philox({number, static_cast<uint32_t>(key),
                             static_cast<uint32_t>(key >> 32), kPurposeChoice},
                            seed);
  const uint64_t bits = uint64_t{words[0]} << 20 | words[1] >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

}  // namespace

TokenId GumbelSampler::SampleToken(int64_t position,
                                   const TargetDistribution& distribution) {
  return Argmax(GumbelNoise(seed_, position), distribution);
}

TokenId GumbelSampler::SampleOutside(int64_t round,
                                     const TargetDistribution& distribution) {
  return Argmax(GumbelNoise(seed_, round, NoisePurpose::kOutside),
                distribution);
}

TokenId GumbelSampler::Argmax(const GumbelNoise& noise,
                              const TargetDistribution& distribution) {
  NoisyArgmax argmax(noise);
  const auto& weights = distribution.log_weights;
  argmax.ConsiderAll(
      static_cast<int64_t>(weights.size()),
      std::max_element(weights.begin(), weights.end()) - weights.begin(),
      [&](int64_t i) { return distribution.token(i); },
      [&](int64_t i) { return weights[i]; });
  if (distribution.near_tie || argmax.near_tie()) ++near_ties_;
  return argmax.winner();
}

int64_t GumbelSampler::SampleIndex(int64_t round,
                                   absl::Span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double left = sum * Uniform(seed_, round, num_choices_++);
  int64_t chosen = 0;  // the last one possible, so that rounding cannot pass it
  for (size_t i = 0; i < weights.size() && left >= 0; ++i) {
    if (weights[i] > 0) chosen = static_cast<int64_t>(i);
    left -= weights[i];
  }
  return chosen;
}

}  // namespace espalier::verifier
