#ifndef ESPALIER_COMMON_CUDA_KERNELS_GUMBEL_H_
#define ESPALIER_COMMON_CUDA_KERNELS_GUMBEL_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

// The random bits of four tokens from `token` on, a multiple of 4: those of
// GumbelNoise (Philox 4x32-10).
DEVICE void NoiseBits(const DrawRow& row, uint32_t token, uint32_t (&bits)[4]) {
  bits[0] = token / 4;
  bits[1] = static_cast<uint32_t>(row.position);
  bits[2] = static_cast<uint32_t>(row.position >> 32);
  bits[3] = row.purpose;
  uint32_t k0 = static_cast<uint32_t>(row.seed);
  uint32_t k1 = static_cast<uint32_t>(row.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * bits[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * bits[2];
    bits[0] = static_cast<uint32_t>(p1 >> 32) ^ bits[1] ^ k0;
    bits[1] = static_cast<uint32_t>(p1);
    bits[2] = static_cast<uint32_t>(p0 >> 32) ^ bits[3] ^ k1;
    bits[3] = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

// GumbelNoise::FromBits in float32, within 1e-5: -log(-log(1 - v)) with v =
// (bits + 1/2) / 2^32. Where v is above a half, 1 - v is taken from the bits,
// as float32 would round it away.
DEVICE float NoiseFromBits(uint32_t bits) {
  constexpr float kUnit = 0x1p-32f;
  const float exponential =
      bits < 0x80000000u ? -log1pf(-(static_cast<float>(bits) + 0.5f) * kUnit)
                         : -logf((static_cast<float>(~bits) + 0.5f) * kUnit);
  return -logf(exponential);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_GUMBEL_H_
