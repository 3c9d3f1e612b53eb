#include "verifier/choosers.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/spec/gumbel_noise.h"
#include "verifier/near_tie.h"

namespace espalier::verifier {
namespace {

// Most tokens can neither win nor come near, which their log-weight, or else
// their random bits, show before a logarithm is taken.
class NoisyArgmax {
 public:
  NoisyArgmax(const GumbelNoise& noise, const TargetLaw& law)
      : noise_(noise), law_(law) {}

  // Sets winner() and margin().
  void Run() {
    const auto& weights = law_.log_weights;
    const int64_t n = static_cast<int64_t>(weights.size());
    // The likeliest token first: a high score to beat rules out the most.
    const int64_t likeliest =
        std::max_element(weights.begin(), weights.end()) - weights.begin();
    Consider(likeliest);
    for (int64_t i = 0; i < n; ++i) {
      if (weights[i] >= floor_ && i != likeliest) Consider(i);
    }
  }

  TokenId winner() const { return winner_; }
  // Lead over the runner-up; exact where it is at most kNearTie.
  double margin() const { return best_ - second_; }

 private:
  void Consider(int64_t i) {
    const TokenId token = law_.token(i);
    const double weight = law_.log_weights[i];
    const uint32_t bits = Bits(token);
    if (weight + GumbelNoise::UpperBound(bits) < best_ - kNearTie) return;
    const double score = weight + GumbelNoise::FromBits(bits);
    if (score > best_ || (score == best_ && token < winner_)) {
      second_ = best_;
      best_ = score;
      winner_ = token;
      floor_ = best_ - kNearTie - GumbelNoise::kUpperBound;
    } else {
      second_ = std::max(second_, score);
    }
  }

  uint32_t Bits(TokenId token) {
    if (token / 4 != block_) {
      block_ = token / 4;
      block_bits_ = noise_.BlockBits(block_);
    }
    return block_bits_[token % 4];
  }

  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  const GumbelNoise& noise_;
  const TargetLaw& law_;
  int32_t block_ = -1;  // whose bits are in block_bits_
  std::array<uint32_t, 4> block_bits_ = {};
  TokenId winner_ = 0;
  double best_ = kNone;
  double second_ = kNone;
  double floor_ = kNone;  // log-weights below it need no noise
};

}  // namespace

TokenId GumbelChooser::Draw(int64_t position, const TargetLaw& law) {
  const GumbelNoise noise(seed_, position);
  NoisyArgmax argmax(noise, law);
  argmax.Run();
  if (law.near_tie || argmax.margin() <= kNearTie) ++near_ties_;
  return argmax.winner();
}

}  // namespace espalier::verifier
