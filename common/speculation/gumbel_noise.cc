#include "common/speculation/gumbel_noise.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace espalier {

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0,
               static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1,
               static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

GumbelNoise::Stream GumbelNoise::StreamFrom(TokenId token) const {
  const uint64_t position = static_cast<uint64_t>(position_);
  return {.key = seed_,
          .counter = {static_cast<uint32_t>(token / 4),
                      static_cast<uint32_t>(position),
                      static_cast<uint32_t>(position >> 32),
                      static_cast<uint32_t>(purpose_)}};
}

std::array<uint32_t, 4> GumbelNoise::BlockBits(int32_t block) const {
  const Stream stream = StreamFrom(block * 4);
  return Philox(stream.counter, stream.key);
}

uint32_t GumbelNoise::Bits(TokenId token) const {
  return BlockBits(token / 4)[token % 4];
}

// With v = (bits + 1/2) / 2^32 in (0, 1) and u = 1 - v, -log u = -log1p(-v)
// keeps the upper tail (v near 0) unquantised.
double GumbelNoise::FromBits(uint32_t bits) {
  const double v = (static_cast<double>(bits) + 0.5) * 0x1p-32;
  return -std::log(-std::log1p(-v));
}

// -log1p(-v) >= v, hence g <= -log v; and v >= 2^-(leading zeros + 1).
double GumbelNoise::UpperBound(uint32_t bits) {
  return (std::countl_zero(bits) + 1) * std::numbers::ln2;
}

double GumbelNoise::operator()(TokenId token) const {
  return FromBits(Bits(token));
}

}  // namespace espalier
