#ifndef ESPALIER_COMMON_SPECULATION_GUMBEL_NOISE_H_
#define ESPALIER_COMMON_SPECULATION_GUMBEL_NOISE_H_

#include <array>
#include <cstdint>

#include "common/speculation/types.h"

namespace espalier {

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11): four independent 32-bit words for a counter and a key.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, uint64_t key);

// Names what the noise is used for. Noise of different purposes is independent,
// whatever the seeds and positions.
enum class NoisePurpose : uint32_t {
  kWalk = 0x57414c4b,     // the coupled walk, which drafters predict
  kOutside = 0x4f555453,  // sampling tokens outside the draft distributions
};

// The Gumbel noise of the coupled walk, g(seed, position, token) =
// -log(-log(u)). It depends on nothing else: not on node, drafter, round, retry
// or batch row. argmax_x log q(x) + g(x) is an exact sample of q (Gumbel-max),
// so a drafter that knows seed and position can predict the verifier's sample.
//
// Position is the absolute index of the emitted token: the token after a
// committed text of n tokens has position n.
class GumbelNoise {
 public:
  // No token's noise exceeds this: u has 32 bits.
  static constexpr double kUpperBound = 22.9;

  GumbelNoise(uint64_t seed, int64_t position,
              NoisePurpose purpose = NoisePurpose::kWalk)
      : seed_(seed), position_(position), purpose_(purpose) {}

  double operator()(TokenId token) const;

  // Returns the 32 random bits of a token, which FromBits turns into noise. A
  // scan can rule a token out by its bits alone: noise <= UpperBound(bits).
  uint32_t Bits(TokenId token) const;
  // Returns the bits of the four tokens from 4 * block on, at the cost of one.
  std::array<uint32_t, 4> BlockBits(int32_t block) const;
  // Arguments of Philox for the bits of the four tokens from `token` on; the
  // next four tokens need counter[0] + 1. REQUIRES: token % 4 == 0.
  struct Stream {
    uint64_t key = 0;
    std::array<uint32_t, 4> counter = {};
  };
  Stream StreamFrom(TokenId token) const;
  static double FromBits(uint32_t bits);
  static double UpperBound(uint32_t bits);

 private:
  uint64_t seed_;
  int64_t position_;
  NoisePurpose purpose_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_GUMBEL_NOISE_H_
