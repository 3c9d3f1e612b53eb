#ifndef ESPALIER_COMMON_CUDA_KERNELS_CHAIN_HINTS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CHAIN_HINTS_H_

#include "common/cuda/kernels/chain_rings.h"

namespace espalier::cuda {
namespace {

// Hints at this block's next tiles of weights, over the ends of products.
// `first`: how many tiles of the chain the block has brought already.
template <typename Rings>
DEVICE void HintWeights(const ChainArgs& args, uint32_t first) {
  const uint32_t end = first + kHintedBytes / Rings::kPageBytes;
  uint32_t tiles = 0;
  for (int step = 0; step < args.num_steps && tiles < end; ++step) {
    if (IsChainNorm(step)) continue;
    ForWeightsOfBlock<Rings>(args.products[ChainProduct(step)], tiles,
                             [&](uint32_t tile, const unsigned char* from) {
                               if (tile >= first && tile < end)
                                 HintL2(from, Rings::kPageBytes);
                             });
  }
}

// Rings whose thread that brings weights hints at the next ones once: when all
// pages are taken for the first time, so it has to wait. Attention runs then,
// and the device's memory rests.
template <typename Rings>
struct HintingRings : Rings {
  const ChainArgs& chain;
  bool panels_end = false;     // what is brought now are weights
  uint32_t first_weights = 0;  // their first page, then

  DEVICE void FillPage(uint32_t page, const unsigned char* from) const {
    if (page == Rings::kPages) {
      HintWeights<Rings>(chain, panels_end ? page - first_weights : 0);
    }
    Rings::FillPage(page, from);
  }
};

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CHAIN_HINTS_H_
