#ifndef ESPALIER_COMMON_CUDA_KERNELS_CHAIN_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CHAIN_H_

#include "common/cuda/kernels/chain_norm.h"
#include "common/cuda/kernels/chain_rings.h"

namespace espalier::cuda {
namespace {

// The place in the rings before a part.
struct RingPlace {
  uint32_t page = 0, slot = 0;
};

// Gives back the slots of a part in which the warpgroup has no strip. Called by
// one thread of a warp: others could miss a phase.
template <typename Rings>
DEVICE void PassSlots(const ProductPart& part, const Rings& rings,
                      const RingPlace& place) {
  for (int tile = 0; tile < part.tiles; ++tile) {
    rings.WaitForSlot(place.slot + tile);
    rings.GiveSlotBack(place.slot + tile);
  }
}

// Multiplies a warpgroup's strip by the rows, over all tiles of the part, as
// MultiplyTiles does.
template <int kRows, typename Rings>
DEVICE void MultiplyPart(const ProductPart& part, const Rings& rings,
                         const RingPlace& place, float (&sums)[kRows / 2]) {
  const uint32_t group = threadIdx.x / 128;
  const auto page_of = [&](int tile) {
    return place.page + tile * part.strips + group;
  };
  const auto give_back = [&](int tile) {
    if (threadIdx.x % 32 != 0) return;
    rings.GivePageBack(page_of(tile));
    rings.GiveSlotBack(place.slot + tile);
  };
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  HoldSums(sums);
  for (int tile = 0; tile < part.tiles; ++tile) {
    const uint32_t strip = SharedAddress(rings.Page(page_of(tile)));
    const uint32_t rows = SharedAddress(rings.Slot(place.slot + tile));
    rings.WaitForPage(page_of(tile));
    rings.WaitForSlot(place.slot + tile);
    GroupFence();
#pragma unroll
    for (int k = 0; k < kTileColumns / 16; ++k) {
      GroupMultiply<kRows>(sums, TileDescriptor(strip + k * 32),
                           TileDescriptor(rows + k * 32));
    }
    GroupCommit();
    // The tile before has been read by now; this one goes on.
    GroupWait<1>();
    if (tile > 0) give_back(tile - 1);
  }
  GroupWait<0>();
  HoldSums(sums);
  give_back(part.tiles - 1);
}

// Multiplies all parts of a product that are this block's.
template <int kRows, typename Rings>
DEVICE void RunPartsOfBlock(const ProductArgs& product, const Rings& rings,
                            RingPlace& place) {
  ForPartsOfBlock(product, [&](const ProductPart& part) {
    const RingPlace at = place;
    place.page += part.tiles * part.strips;
    place.slot += part.tiles;
    if (static_cast<int>(threadIdx.x) / 128 < part.strips) {
      float sums[kRows / 2];
      MultiplyPart<kRows>(part, rings, at, sums);
      WriteSums<kRows>(product, part, sums);
    } else if (threadIdx.x % 32 == 0) {
      PassSlots(part, rings, at);
    }
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

// The last block leaves counters as they were: all others have seen them by
// now.
DEVICE void LeaveChain(const ChainArgs& args) {
  if (threadIdx.x > 0) return;
  if (!CounterReaches(&args.counters[kMaxChainSteps], gridDim.x)) return;
  for (int i = 0; i < kChainCounters; ++i) args.counters[i] = 0;
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
template <int kRows, typename Rings>
DEVICE void RunSteps(const ChainArgs& args, const Rings& rings) {
  RingPlace place;
  for (int step = 0; step < args.num_steps; ++step) {
    uint32_t* const done = &args.counters[step];
    if (IsChainNorm(step)) {
      NormRowsOfBlock(args.norms[ChainNorm(step)], done - 1, rings.sums);
    } else {
      RunPartsOfBlock<kRows>(args.products[ChainProduct(step)], rings, place);
    }
    EndStep(done);
  }
  LeaveChain(args);
}

// Grid: args.blocks, all of them on the device at once.
template <int kRows>
__global__ void __launch_bounds__(kChainThreads, 1)
    Chain(const __grid_constant__ ChainArgs args) {
  SHARED_MEMORY(shared);
  const ChainRings<kRows> rings(shared);
  if (threadIdx.x == 0) rings.Init();
  __syncthreads();
  DependentsMayLaunch();
  if (threadIdx.x == kChainWorkers) BringWeights(args, rings);
  if (threadIdx.x == kChainWorkers + 32) {
    WaitForPrevious();
    BringRows(args, rings);
  }
  if (threadIdx.x >= kChainWorkers) return;
  WaitForPrevious();
  RunSteps<kRows>(args, rings);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CHAIN_H_
