#include "drafter/trees/gumbel_coupling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/speculation/gumbel_noise.h"

namespace espalier::drafter {
namespace {

constexpr double kMedianNoise = 0.36651292058166435;  // -log(log 2)

// Log of the mass that the candidates leave to other tokens.
double LogRest(const std::vector<Candidate>& candidates) {
  double mass = 0;
  for (const Candidate& candidate : candidates) {
    mass += std::exp(candidate.log_prob);
  }
  return mass < 1 ? std::log1p(-mass)
                  : -std::numeric_limits<double>::infinity();
}

void Perturb(const SamplingParams& sampling, int64_t position,
             double noise_scale, std::vector<Candidate>& candidates) {
  const GumbelNoise noise(sampling.seed, position);
  const double rest =
      (LogRest(candidates) + sampling.temperature * kMedianNoise) / noise_scale;
  double max = rest;
  for (Candidate& candidate : candidates) {
    candidate.log_prob =
        (candidate.log_prob + sampling.temperature * noise(candidate.token)) /
        noise_scale;
    max = std::max(max, candidate.log_prob);
  }
  double sum = std::exp(rest - max);
  for (const Candidate& candidate : candidates) {
    sum += std::exp(candidate.log_prob - max);
  }
  const double log_sum = max + std::log(sum);
  for (Candidate& candidate : candidates) {
    candidate.log_prob = std::min(0.0, candidate.log_prob - log_sum);
  }
}

}  // namespace

void ApplyGumbelCoupling(const SamplingParams& sampling, int64_t position,
                         double noise_scale,
                         std::vector<Candidate>& candidates) {
  ESPALIER_CHECK(noise_scale > 0);
  if (!sampling.greedy() && !candidates.empty()) {
    Perturb(sampling, position, noise_scale, candidates);
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.log_prob != b.log_prob ? a.log_prob > b.log_prob
                                              : a.token < b.token;
            });
}

}  // namespace espalier::drafter
