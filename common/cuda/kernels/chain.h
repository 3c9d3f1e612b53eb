#ifndef ESPALIER_COMMON_CUDA_KERNELS_CHAIN_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CHAIN_H_

#include "common/cuda/kernels/chain_norm.h"
#include "common/cuda/kernels/chain_rings.h"
#include "common/cuda/kernels/chain_strip.h"
#include "common/cuda/kernels/e4m3_product.h"

namespace espalier::cuda {
namespace {

// Multiplies all parts of a product that are this block's. A warp that has no
// strip of a part gives back its slots.
template <int kRows, bool kIsE4m3, typename Rings>
DEVICE void RunPartsOfBlock(const ProductArgs& product, const Rings& rings,
                            RingPlace& place) {
  ForPartsOfBlock(product, [&](const ProductPart& part) {
    const TilesOfStrip<Rings> tiles(part, rings, place);
    place.page += part.tiles * part.strips;
    place.slot += part.tiles;
    if (static_cast<int>(threadIdx.x) / 128 >= part.strips) {
      tiles.PassSlots();
      return;
    }
    float sums[kRows / 2];
    if constexpr (kIsE4m3) {
      MultiplyE4m3Tiles<kRows>(tiles, sums);
      ScaleSums<kRows>(product, part, sums);
    } else {
      MultiplyTiles<kRows, kWidestMultiply>(tiles, sums);
    }
    // One block of rows; the compiler spills where it knows that.
    WriteSums<kRows>(product, part, /*row_blocks=*/gridDim.y, sums);
  });
}

// Normalizes this block's rows, when all blocks have done the product.
DEVICE void NormRowsOfBlock(const ResidualNormArgs& norm,
                            const uint32_t* product_done, float* sums) {
  const int first = blockIdx.x;
  if (first >= norm.rows) return;
  if (threadIdx.x == 0) CounterWait(product_done, gridDim.x);
  NamedSync(1, kChainWorkers);
  constexpr int kSumsOfRow = kMaxNormThreads / 32;
  int turn = 0;
  for (int row = first; row < norm.rows; row += gridDim.x, turn ^= 1) {
    NormRow(norm, row, sums + turn * kSumsOfRow);
  }
}

// This block has done its part of a step: rows are written for the copies of
// others.
DEVICE void EndStep(uint32_t* done) {
  FenceAsyncGlobal();
  NamedSync(1, kChainWorkers);
  if (threadIdx.x == 0) CounterAdd(done);
}

// The last block leaves so many counters as they were: all others have seen
// them by now.
DEVICE void LeaveChain(const ChainArgs& args, int counters) {
  if (threadIdx.x > 0) return;
  if (!CounterReaches(&args.counters[kMaxChainSteps], gridDim.x)) return;
  for (int i = 0; i < counters; ++i) args.counters[i] = 0;
}

// The steps of a chain, by the threads that multiply. Every block ends every
// step, though it may have no part of it, and begins one when all blocks have
// ended the one before. So nothing is overwritten early:
//   - parts are written again by a product whose rows are there when a norm
//     has read them all;
//   - the rows of a norm are written again by the next norm, when the product
//     of them is done;
//   - gated rows are written once;
//   - a row of the residual stream belongs to the same block in all norms.
// `place`: where the rings are.
template <int kRows, bool kIsE4m3, typename Rings>
DEVICE void RunSteps(const ChainArgs& args, const Rings& rings,
                     RingPlace place) {
  for (int step = 0; step < args.num_steps; ++step) {
    uint32_t* const done = &args.counters[step];
    if (IsChainNorm(step)) {
      NormRowsOfBlock(args.norms[ChainNorm(step)], done - 1, rings.sums);
    } else {
      RunPartsOfBlock<kRows, kIsE4m3>(args.products[ChainProduct(step)], rings,
                                      place);
    }
    EndStep(done);
  }
}

// Grid: args.blocks, all of them on the device at once. kIsE4m3: the weights of
// all products.
template <int kRows, bool kIsE4m3>
__global__ void __launch_bounds__(kChainThreads, 1)
    Chain(const __grid_constant__ ChainArgs args) {
  SHARED_MEMORY(shared);
  const ChainRings<kRows, kIsE4m3 ? kE4m3TileBytes : kWeightTileBytes> rings(
      shared);
  if (threadIdx.x == 0) rings.Init();
  __syncthreads();
  DependentsMayLaunch();
  if (threadIdx.x == kChainWorkers) BringWeights(args, rings, 0);
  if (threadIdx.x == kChainWorkers + 32) {
    WaitForPrevious();
    BringRows(args, rings, nullptr);
  }
  if (threadIdx.x >= kChainWorkers) return;
  WaitForPrevious();
  RunSteps<kRows, kIsE4m3>(args, rings, {});
  LeaveChain(args, kChainCounters);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CHAIN_H_
