#ifndef ESPALIER_COMMON_CUDA_KERNELS_LAYER_CHAIN_H_
#define ESPALIER_COMMON_CUDA_KERNELS_LAYER_CHAIN_H_

#include "common/cuda/kernels/chain.h"
#include "common/cuda/kernels/chain_hints.h"
#include "common/cuda/kernels/layer_attention.h"

namespace espalier::cuda {
namespace {

// Attention takes more registers than an equal share, so a warpgroup that
// brings what the others read leaves them some of its own.
inline constexpr int kLayerThreads = kChainWorkers + 128;
inline constexpr int kLayerRegisters = 152, kBringerRegisters = 56;

template <int kRows, bool kIsE4m3, int kMaxPages = kMaxChainPages>
using LayerRings =
    ChainRings<kRows, kIsE4m3 ? kE4m3TileBytes : kWeightTileBytes,
               kLayerSlotBytes, kMaxPages>;

// Brings the panels and the weights of a layer. Called by one thread.
template <int kDim, bool kHints, typename Rings>
DEVICE void BringLayer(const LayerChainArgs& args, const Rings& rings) {
  if constexpr (kHints) {
    HintingRings<Rings> hinting{rings, args.chain};
    PanelBringer<kDim, HintingRings<Rings>> panels{args, hinting};
    panels.BringAll();
    hinting.panels_end = true;
    hinting.first_weights = panels.page;
    BringWeights(args.chain, hinting, panels.page);
  } else {
    PanelBringer<kDim, Rings> panels{args, rings};
    panels.BringAll();
    BringWeights(args.chain, rings, panels.page);
  }
}

// kIsE4m3: the weights of all products. kHints: as kHintsWeights.
template <int kRows, bool kIsE4m3, int kDim, bool kHints, typename Rings>
DEVICE void RunLayer(const LayerChainArgs& args, const Rings& rings) {
  const ChainArgs& chain = args.chain;
  if (threadIdx.x == 0) rings.Init();
  __syncthreads();
  DependentsMayLaunch();
  WaitForPrevious();
  if (threadIdx.x >= kChainWorkers) {
    KeepRegisters<kBringerRegisters>();
    if (threadIdx.x == kChainWorkers) BringLayer<kDim, kHints>(args, rings);
    if (threadIdx.x == kChainWorkers + 32) {
      BringRows(chain, rings, LayerCounters(chain).Attended());
    }
    return;
  }
  TakeRegisters<kLayerRegisters>();
  RingPlace place;
  AttendLayer<kDim>(args, rings, place);
  RunSteps<kRows, kIsE4m3>(chain, rings, place);
  LeaveChain(chain, kLayerCounters);
}

// Grid: args.chain.blocks, all of them on the device at once.
template <int kRows, bool kIsE4m3, int kDim>
__global__ void __launch_bounds__(kLayerThreads, 1)
    LayerChain(const __grid_constant__ LayerChainArgs args) {
  SHARED_MEMORY(shared);
  RunLayer<kRows, kIsE4m3, kDim, kHintsWeights>(
      args, LayerRings<kRows, kIsE4m3>(shared));
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_LAYER_CHAIN_H_
