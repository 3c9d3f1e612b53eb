#ifndef ESPALIER_COMMON_SPEC_NOISY_ARGMAX_H_
#define ESPALIER_COMMON_SPEC_NOISY_ARGMAX_H_

#include <array>
#include <cstdint>
#include <limits>

#include "common/spec/gumbel_noise.h"
#include "common/spec/near_tie.h"
#include "common/spec/types.h"

namespace espalier {

// A logit as a log-weight of the law, relative to the row's largest logit so
// that no temperature can overflow upwards. REQUIRES: temperature > 0.
inline float LogWeight(float logit, float largest, float temperature) {
  return (logit - largest) / temperature;
}

// The draw of the coupled walk: argmax of log-weight + noise, ties to the lower
// id. All code that draws feeds this, so that it agrees to the bit; the order
// of the tokens does not matter, and those below floor() may be left out. Most
// tokens can neither win nor come near, which their log-weight, or else their
// random bits, show before a logarithm is taken.
class NoisyArgmax {
 public:
  explicit NoisyArgmax(const GumbelNoise& noise) : noise_(noise) {}

  void Consider(TokenId token, double log_weight);

  // Entries 0 .. size - 1, each token(i) with log_weight(i). `likeliest`, the
  // one of the largest weight, goes first: a high score to beat rules out the
  // most.
  template <typename TokenOf, typename WeightOf>
  void ConsiderAll(int64_t size, int64_t likeliest, TokenOf token,
                   WeightOf log_weight) {
    Consider(token(likeliest), log_weight(likeliest));
    for (int64_t i = 0; i < size; ++i) {
      const double weight = log_weight(i);
      if (weight >= floor_ && i != likeliest) Consider(token(i), weight);
    }
  }

  // Smaller log-weights need not be considered.
  double floor() const { return floor_; }
  TokenId winner() const { return winner_; }
  // Whether the runner-up is within kNearTie.
  bool near_tie() const { return best_ - second_ <= kNearTie; }

 private:
  uint32_t Bits(TokenId token);

  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  const GumbelNoise noise_;
  int32_t block_ = -1;  // whose bits are in block_bits_
  std::array<uint32_t, 4> block_bits_ = {};
  TokenId winner_ = 0;
  double best_ = kNone;
  double second_ = kNone;  // exact where it is within kNearTie of the best
  double floor_ = kNone;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_NOISY_ARGMAX_H_
