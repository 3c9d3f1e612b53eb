#include "common/model/files/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace espalier {
namespace {

double Llama3Frequency(const RopeScaling& s, double frequency) {
  // Between the two limits the frequency is blended.
  const double turns =
      s.original_max_positions * frequency / (2 * std::numbers::pi);
  const double keep = std::clamp(
      (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor),
      0.0, 1.0);
  return keep * frequency + (1 - keep) * frequency / s.factor;
}

// Returns the dimension whose wave fits `turns` times into the original length.
double DimensionOf(const RopeScaling& s, double turns, double theta,
                   int64_t head_dim) {
  return head_dim *
         std::log(s.original_max_positions / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

struct Ramp {
  double low = 0;   // not stretched up to this pair
  double high = 0;  // stretched from this one on
};

Ramp YarnRamp(const RopeScaling& s, double theta, int64_t head_dim) {
  double low = DimensionOf(s, s.beta_fast, theta, head_dim);
  double high = DimensionOf(s, s.beta_slow, theta, head_dim);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  return {.low = low, .high = high};
}

}  // namespace

double YarnAttentionFactor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

std::vector<double> ScaledFrequencies(const RopeScaling& scaling, double theta,
                                      int64_t head_dim) {
  const Ramp ramp = YarnRamp(scaling, theta, head_dim);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / head_dim;
    const double frequency = std::pow(theta, -exponent);
    switch (scaling.kind) {
      case RopeScaling::Kind::kLinear:
        frequencies.push_back(frequency / scaling.factor);
        break;
      case RopeScaling::Kind::kLlama3:
        frequencies.push_back(Llama3Frequency(scaling, frequency));
        break;
      case RopeScaling::Kind::kYarn: {
        const double stretch =
            std::clamp((i - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
        frequencies.push_back(stretch * frequency / scaling.factor +
                              (1 - stretch) * frequency);
        break;
      }
    }
  }
  return frequencies;
}

}  // namespace espalier
