#include "drafter/trees/noise_calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace espalier::drafter {
namespace {

constexpr double kMemory = 0.995;        // weight of the past per observation
constexpr double kSurpriseFloor = 1e-3;  // one surprise does not decide
constexpr int64_t kDepths = 8;
// The initial lead of scale 1 over the others, in nats.
constexpr double kPrior = 3;
constexpr size_t kPriorScale = 3;

// Returns the chance given to `emitted`, or to all unlisted tokens together.
double ChanceOf(const std::vector<Candidate>& coupled, TokenId emitted) {
  double rest = 1;
  for (const Candidate& candidate : coupled) {
    const double chance = std::exp(candidate.log_prob);
    if (candidate.token == emitted) return chance;
    rest -= chance;
  }
  return rest;
}

}  // namespace

NoiseCalibration::Key NoiseCalibration::KeyOf(const SamplingParams& sampling,
                                              int64_t depth) {
  return {std::lround(2 * std::log2(sampling.temperature)),
          std::min(depth, kDepths - 1)};
}

NoiseCalibration::Belief NoiseCalibration::BeliefOf(
    const SamplingParams& sampling, size_t choice) {
  if (choice < kScales.size()) return {sampling, kScales[choice]};
  Belief without = {sampling};
  without.sampling.temperature = 0;
  return without;
}

NoiseCalibration::Belief NoiseCalibration::BeliefAt(
    const SamplingParams& sampling, int64_t depth) const {
  if (sampling.greedy()) return {sampling};
  if (fixed_.has_value() && std::isfinite(*fixed_)) return {sampling, *fixed_};
  if (fixed_.has_value()) return BeliefOf(sampling, kScales.size());
  const auto record = records_.find(KeyOf(sampling, depth));
  if (record == records_.end()) return BeliefOf(sampling, kPriorScale);
  const Record& fits = record->second;
  return BeliefOf(sampling,
                  std::max_element(fits.begin(), fits.end()) - fits.begin());
}

void NoiseCalibration::Observe(const SamplingParams& sampling, int64_t depth,
                               int64_t position,
                               const std::vector<Candidate>& candidates,
                               TokenId emitted) {
  if (sampling.greedy() || fixed_.has_value()) return;
  const auto [record, is_new] = records_.try_emplace(KeyOf(sampling, depth));
  if (is_new) {
    record->second.fill(0);
    record->second[kPriorScale] = kPrior;
  }
  for (size_t choice = 0; choice < record->second.size(); ++choice) {
    const Belief belief = BeliefOf(sampling, choice);
    std::vector<Candidate> coupled = candidates;
    ApplyGumbelCoupling(belief.sampling, position, belief.noise_scale, coupled);
    const double chance = std::max(ChanceOf(coupled, emitted), kSurpriseFloor);
    record->second[choice] =
        kMemory * record->second[choice] + std::log(chance);
  }
}

std::optional<double> ReadNoiseScale(OptionReader& reader) {
  const std::string text = reader.Text("noise_scale", "auto");
  if (text == "auto") return std::nullopt;
  if (text == "none") return std::numeric_limits<double>::infinity();
  return reader.Number("noise_scale", {1.0, 0.01, 100.0});
}

}  // namespace espalier::drafter
