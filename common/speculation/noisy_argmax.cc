#include "common/speculation/noisy_argmax.h"

#include <algorithm>

namespace espalier {

void NoisyArgmax::Consider(TokenId token, double log_weight) {
  const uint32_t bits = Bits(token);
  if (log_weight + GumbelNoise::UpperBound(bits) < best_ - kNearTie) return;
  const double score = log_weight + GumbelNoise::FromBits(bits);
  if (score > best_ || (score == best_ && token < winner_)) {
    second_ = best_;
    best_ = score;
    winner_ = token;
    floor_ = best_ - kNearTie - GumbelNoise::kUpperBound;
  } else {
    second_ = std::max(second_, score);
  }
}

uint32_t NoisyArgmax::Bits(TokenId token) {
  if (token / 4 != block_) {
    block_ = token / 4;
    block_bits_ = noise_.BlockBits(block_);
  }
  return block_bits_[token % 4];
}

}  // namespace espalier
