#ifndef ESPALIER_TESTS_DEVICE_VARIANT_KERNELS_H_
#define ESPALIER_TESTS_DEVICE_VARIANT_KERNELS_H_

#include "common/cuda/counters.h"
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

// A ring into which next to nothing of the rows is brought.
template <typename Ring>
struct RowlessRing : Ring {
  static constexpr int kRowTileBytes = 16;
  using Ring::Ring;
};

// Grid: as Product.
template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    RowlessProduct(const __grid_constant__ ProductArgs args) {
  SHARED_MEMORY(shared);
  const RowlessRing<ProductRing<kGroups, kRows, kWeightTileBytes>> ring(shared);
  if (!StartProduct<kGroups, EqualRegisters>(args, ring)) return;
  ForParts<kGroups>(args, [&](const ProductPart& part, int before) {
    if (!part.HasStrip()) return PassTiles(part, before, ring);
    float sums[kRows / 2];
    MultiplyTiles<kRows, kWidestMultiply>(TilesInRing(part, before, ring),
                                          sums);
    WaitForPrevious();
    WriteSums<kRows>(args, part, gridDim.x, sums);
  });
}

inline constexpr int kWideNormThreads = 1024;

// Grid: as ResidualNorm.
__global__ void __launch_bounds__(kWideNormThreads, 1)
    WideNorm(const __grid_constant__ ResidualNormArgs args) {
  SHARED_MEMORY(shared);
  RunResidualNorm<1, false, kWideNormThreads>(args, shared);
}

// Grid: waiters, and the block that signals them. One thread of each.
__global__ void __launch_bounds__(32)
    HandOver(const __grid_constant__ HandOverArgs args) {
  WaitForPrevious();
  if (threadIdx.x > 0) return;
  uint32_t* const there = args.counters;
  uint32_t* const back = args.counters + kHandOverWords / 3;
  uint32_t* const number = args.counters + 2 * kHandOverWords / 3;
  for (uint32_t i = 1; i <= args.rounds; ++i) {
    const uint32_t round = args.before + i;
    if (blockIdx.x == 0) {
      *number = round;
      if (args.is_fenced) FenceAsyncGlobal();
      CounterAdd(there);
      CounterWait(back, round * args.waiters);
    } else {
      CounterWait(there, round);
      if (args.is_fenced) FenceAsyncGlobal();
      CounterAdd(back);
    }
  }
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

// A thread's part of 16 columns of a tile's rows, for the instructions that
// take it from registers.
DEVICE void LoadFactor(const unsigned char* tile, int k, uint32_t (&part)[4]) {
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const int column = 16 * k + threadIdx.x % 4 * 2;
  part[0] = PairAt(tile, row, column);
  part[1] = PairAt(tile, row + 8, column);
  part[2] = PairAt(tile, row, column + 8);
  part[3] = PairAt(tile, row + 8, column + 8);
}

// The sums of a thread by the instruction of a warpgroup. kHeld: the first
// factor from registers.
template <bool kHeld>
DEVICE void SumsOfWarpgroup(const unsigned char* a, const unsigned char* b,
                            float (&sums)[32]) {
  uint32_t held[kTileColumns / 16][4];
#pragma unroll
  for (int k = 0; k < kTileColumns / 16; ++k) LoadFactor(a, k, held[k]);
  HoldSums(sums);
  HoldFactors(held);
  GroupFence();
#pragma unroll
  for (int k = 0; k < kTileColumns / 16; ++k) {
    const uint64_t right = TileDescriptor(SharedAddress(b) + 32 * k);
    if constexpr (kHeld) {
      GroupMultiplyHeld<64>(sums, held[k], right);
    } else {
      GroupMultiply<64>(sums, TileDescriptor(SharedAddress(a) + 32 * k), right);
    }
  }
  GroupCommit();
  GroupWait<0>();
  HoldSums(sums);
}

// The four sums of a thread in columns from 8 j, by the instruction of a warp.
DEVICE void SumsOfWarp(const unsigned char* a, const unsigned char* b, int j,
                       float (&sums)[4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < kTileColumns / 16; ++k) {
    const int column = 16 * k + 2 * t;
    uint32_t left[4];
    LoadFactor(a, k, left);
    Multiply16x8x16(sums, left, PairAt(b, 8 * j + g, column),
                    PairAt(b, 8 * j + g, column + 8));
  }
}

// Grid: blocks.
template <bool kHeld>
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
  SumsOfWarpgroup<kHeld>(a, b, wide);
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
