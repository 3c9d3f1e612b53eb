#ifndef ESPALIER_TESTS_DEVICE_VARIANT_KERNELS_H_
#define ESPALIER_TESTS_DEVICE_VARIANT_KERNELS_H_

#include "common/cuda/kernels/attend_prefix.h"
#include "common/cuda/kernels/product.h"
#include "common/cuda/kernels/residual_norm.h"
#include "tests/device/variants.h"

namespace espalier::cuda {
namespace {

// Grid: as Product.
template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    NarrowProduct(const __grid_constant__ ProductArgs args) {
  SHARED_MEMORY(shared);
  RunProduct<kGroups, kRows, /*kWidest=*/64>(args, shared);
}

inline constexpr int kWideNormThreads = 1024;

// Grid: as ResidualNorm.
__global__ void __launch_bounds__(kWideNormThreads, 1)
    WideNorm(const __grid_constant__ ResidualNormArgs args) {
  SHARED_MEMORY(shared);
  RunResidualNorm<1, false, kWideNormThreads>(args, shared);
}

DEVICE uint32_t Mixed(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// Returns a random bf16 of a kind, never infinite.
DEVICE bf16_t RandomNumber(Numbers kind, uint32_t seed) {
  const uint32_t random = Mixed(seed);
  const uint32_t sign = random >> 8 & 1;
  uint32_t exponent = 127, fraction = random >> 9 & 127;
  switch (kind) {
    case Numbers::kLikeWeights:
      exponent = 120 + random % 8;
      break;
    case Numbers::kFarApart:
      exponent = 97 + random % 60;
      break;
    case Numbers::kDenormal:
      exponent = random % 3;
      break;
    case Numbers::kCancelling:
      fraction = (random >> 9 & 1) * 127;
      break;
  }
  return static_cast<bf16_t>(sign << 15 | exponent << 7 | fraction);
}

inline constexpr int kCompareShared = 2 * kWeightTileBytes;

DEVICE uint32_t PairAt(const unsigned char* tile, int row, int column) {
  return *reinterpret_cast<const uint32_t*>(tile + TilePlace(row, column));
}

// Before a warpgroup's product reads what threads wrote to shared memory.
DEVICE void FenceAsyncShared() {
#if defined(__CUDACC__)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// The sums of a thread by the instruction of a warpgroup.
DEVICE void SumsOfWarpgroup(const unsigned char* a, const unsigned char* b,
                            float (&sums)[32]) {
  HoldSums(sums);
  GroupFence();
#pragma unroll
  for (int k = 0; k < kTileColumns / 16; ++k) {
    GroupMultiply<64>(sums, TileDescriptor(SharedAddress(a) + 32 * k),
                      TileDescriptor(SharedAddress(b) + 32 * k));
  }
  GroupCommit();
  GroupWait<0>();
  HoldSums(sums);
}

// The four sums of a thread in columns from 8 j, by the instruction of a warp.
DEVICE void SumsOfWarp(const unsigned char* a, const unsigned char* b, int j,
                       float (&sums)[4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int row = threadIdx.x / 32 * 16 + g;
#pragma unroll
  for (int k = 0; k < kTileColumns / 16; ++k) {
    const int column = 16 * k + 2 * t;
    const uint32_t left[4] = {
        PairAt(a, row, column), PairAt(a, row + 8, column),
        PairAt(a, row, column + 8), PairAt(a, row + 8, column + 8)};
    Multiply16x8x16(sums, left, PairAt(b, 8 * j + g, column),
                    PairAt(b, 8 * j + g, column + 8));
  }
}

// Grid: blocks.
__global__ void __launch_bounds__(128)
    CompareSums(const __grid_constant__ CompareSumsArgs args) {
  SHARED_MEMORY(shared);
  WaitForPrevious();
  for (int i = threadIdx.x; i < kCompareShared / 2; i += 128) {
    const uint32_t seed = (args.seed * 65537 + blockIdx.x) * kCompareShared + i;
    reinterpret_cast<bf16_t*>(shared)[i] = RandomNumber(args.numbers, seed);
  }
  FenceAsyncShared();
  __syncthreads();
  const unsigned char* const a = shared;
  const unsigned char* const b = shared + kWeightTileBytes;
  float wide[32] = {};
  SumsOfWarpgroup(a, b, wide);
  uint32_t different = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float sums[4] = {};
    SumsOfWarp(a, b, j, sums);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      different += BitsOf(sums[i]) != BitsOf(wide[4 * j + i]);
    }
  }
  if (different > 0) atomicAdd(args.different, different);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_VARIANT_KERNELS_H_
