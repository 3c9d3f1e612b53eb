#ifndef ESPALIER_COMMON_SPECULATION_NOISY_ARGMAX_H_
#define ESPALIER_COMMON_SPECULATION_NOISY_ARGMAX_H_

#include <array>
#include <cstdint>
#include <limits>

#include "common/speculation/gumbel_noise.h"
#include "common/speculation/near_tie.h"
#include "common/speculation/types.h"

namespace espalier {

// Returns the unnormalised log-probability of a token, relative to the row's
// largest logit so that no temperature overflows. REQUIRES: temperature > 0.
inline float LogWeight(float logit, float largest, float temperature) {
  return (logit - largest) / temperature;
}

// Samples a token as the coupled walk does: argmax of log-weight + noise, ties
// to the lower id. All code that samples uses this class, so that it agrees to
// the bit. The order of the tokens does not matter, and those below floor() may
// be left out. Most tokens are ruled out by their log-weight, or else by their
// random bits, before a logarithm is computed.
class NoisyArgmax {
 public:
  explicit NoisyArgmax(const GumbelNoise& noise) : noise_(noise) {}

  void Consider(TokenId token, double log_weight);

  // Adds entries 0 .. size - 1: token(i) with log_weight(i). `likeliest` is the
  // entry with the largest weight; it goes first, because a high score rules
  // out most others.
  template <typename TokenOf, typename WeightOf>
  void ConsiderAll(int64_t size, int64_t likeliest, TokenOf token,
                   WeightOf log_weight) {
    Consider(token(likeliest), log_weight(likeliest));
    for (int64_t i = 0; i < size; ++i) {
      const double weight = log_weight(i);
      if (weight >= floor_ && i != likeliest) Consider(token(i), weight);
    }
  }

  // Tokens with a smaller log-weight need not be added.
  double floor() const { return floor_; }
  TokenId winner() const { return winner_; }
  // Returns whether the runner-up is within kNearTie.
  bool near_tie() const { return best_ - second_ <= kNearTie; }

 private:
  uint32_t Bits(TokenId token);

  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  const GumbelNoise noise_;
  int32_t block_ = -1;  // the block that block_bits_ belongs to
  std::array<uint32_t, 4> block_bits_ = {};
  TokenId winner_ = 0;
  double best_ = kNone;
  double second_ = kNone;  // exact if within kNearTie of the best
  double floor_ = kNone;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_NOISY_ARGMAX_H_
