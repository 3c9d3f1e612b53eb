#ifndef ESPALIER_COMMON_CUDA_KERNELS_LAYER_CHAIN_H_
#define ESPALIER_COMMON_CUDA_KERNELS_LAYER_CHAIN_H_

#include "common/cuda/kernels/chain.h"
#include "common/cuda/kernels/layer_attention.h"

namespace espalier::cuda {
namespace {

// Attention takes more registers than an equal share, so a warpgroup that
// brings what the others read leaves them some of its own.
inline constexpr int kLayerThreads = kChainWorkers + 128;
inline constexpr int kLayerRegisters = 152, kBringerRegisters = 56;

template <int kRows, bool kIsE4m3>
using LayerRings =
    ChainRings<kRows, kIsE4m3 ? kE4m3TileBytes : kWeightTileBytes,
               kLayerSlotBytes>;

// Grid: args.chain.blocks, all of them on the device at once. kIsE4m3: the
// weights of all products.
template <int kRows, bool kIsE4m3, int kDim>
__global__ void __launch_bounds__(kLayerThreads, 1)
    LayerChain(const __grid_constant__ LayerChainArgs args) {
  SHARED_MEMORY(shared);
  const ChainArgs& chain = args.chain;
  const LayerRings<kRows, kIsE4m3> rings(shared);
  if (threadIdx.x == 0) rings.Init();
  __syncthreads();
  DependentsMayLaunch();
  WaitForPrevious();
  if (threadIdx.x >= kChainWorkers) {
    KeepRegisters<kBringerRegisters>();
    if (threadIdx.x == kChainWorkers) {
      PanelBringer<kDim, LayerRings<kRows, kIsE4m3>> panels{args, rings};
      panels.BringAll();
      BringWeights(chain, rings, panels.page);
    }
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

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_LAYER_CHAIN_H_
