// When the products of a layer run as one kernel that stays (ChainArgs).
#ifndef ESPALIER_COMMON_CUDA_CHAIN_SHAPE_H_
#define ESPALIER_COMMON_CUDA_CHAIN_SHAPE_H_

#include <algorithm>

#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_parts.h"
#include "common/cuda/product_shape.h"

namespace espalier::cuda {

// GPUs run chains. They give the bits of launches, so this is a matter of speed
// alone, which no GPU has measured yet.
inline constexpr bool kRunsChains = false;
// Where they do, a layer's attention runs in its chain, if LayerChainFits.
inline constexpr bool kChainsAttend = false;
// There, a block hints at weights of its first products while its ring is full
// of what attention reads.
inline constexpr bool kHintsWeights = false;

// With fewer blocks, the products of a layer would take two rounds of them.
inline constexpr int kMinChainBlocks = 128;
// Sums of more rows do not fit the registers of 14 warps; beside weights that
// are widened from e4m3, fewer do.
inline constexpr int kMaxChainRows = 144, kMaxE4m3ChainRows = 80;
inline constexpr int kMaxChainColumns = 8192;  // of a row that is normalized

// The shared memory of a block: as many pages of weights as fit beside the
// slots of rows and what else there is.
inline constexpr int kChainSlots = 5;
inline constexpr int kChainRestBytes = 1024;  // barriers and sums
ESPALIER_HOST_DEVICE constexpr int ChainPages(int row_block, int page_bytes,
                                              int more_bytes) {
  const int room = (227 << 10) - kChainRestBytes - more_bytes -
                   kChainSlots * row_block * kTileRowBytes;
  const int most = 192 << 10;
  return (room < most ? room : most) / page_bytes;
}

// Weights that a block hints at: about as many as fill its ring.
inline constexpr int kHintedBytes = 160 << 10;

// Hands each kernel of a chain to `act`, in their order.
template <typename Act>
void ForEachOfChain(const ChainArgs& args, Act act) {
  for (int step = 0; step < args.num_steps; ++step) {
    if (IsChainNorm(step)) {
      act(args.norms[ChainNorm(step)]);
    } else {
      act(args.products[ChainProduct(step)]);
    }
  }
}

// The same, with the kernels of attention before it.
template <typename Act>
void ForEachOfLayer(const LayerChainArgs& args, Act act) {
  act(args.prepare);
  act(args.attend);
  ForEachOfChain(args.chain, act);
}

inline bool FitsChain(const ProductArgs& product) {
  return product.rows <=
         (product.scales == nullptr ? kMaxChainRows : kMaxE4m3ChainRows);
}
inline bool FitsChain(const ResidualNormArgs& norm) {
  return norm.hidden <= kMaxChainColumns && norm.added_weight == nullptr &&
         norm.parts.choices == nullptr;
}

// Returns whether the kernel does what the chain says, on a device that holds
// so many blocks of it. REQUIRES: weights of all products are of one type.
inline bool ChainFits(const ChainArgs& args, int resident_blocks) {
  bool fits = resident_blocks >= kMinChainBlocks;
  ForEachOfChain(args, [&](const auto& step) { fits &= FitsChain(step); });
  return fits;
}

// The slots of the rows of a tree, for each of two warps that share a row.
inline constexpr int kLayerSlotBytes =
    2 * kLayerItemRows * kPagePositions * static_cast<int>(sizeof(int));

// The most items of a prefix that a block of a chain takes: two warps compute
// the same scores there, which costs more than launches where texts are long.
inline constexpr int kMaxLayerRounds = 4;

// Returns whether a chain may do a layer from its attention on: all pages of a
// tree are in a block's ring at once.
inline bool LayerChainFits(const LayerChainArgs& args, int resident_blocks) {
  const PrepareArgs& prepare = args.prepare;
  const AttendArgs& attend = args.attend;
  const ProductArgs& first = args.chain.products[0];
  const int page_bytes =
      first.scales == nullptr ? kWeightTileBytes : kE4m3TileBytes;
  return ChainFits(args.chain, resident_blocks) && prepare.layers == 1 &&
         (attend.head_dim == 64 || attend.head_dim == 128) &&
         attend.kv_heads <= kMaxLayerHeads && attend.window == 0 &&
         attend.num_chain_items == 0 &&
         args.num_prefix_items * attend.kv_heads <=
             kMaxLayerRounds * resident_blocks &&
         attend.tree_pages * 2 *
                 static_cast<int>(PanelBytes(attend.head_dim)) <=
             page_bytes *
                 ChainPages(RowBlock(first.rows), page_bytes, kLayerSlotBytes);
}

// Returns how many blocks a step keeps at work; a norm takes any.
inline int BlocksOf(const ProductArgs& product) {
  return ProductParts(product, ProductGroups(product.outputs));
}
inline int BlocksOf(const ResidualNormArgs&) { return 1; }

// Returns how many blocks a chain takes on such a device: one for each part of
// the largest product.
inline int ChainBlocks(const ChainArgs& args, int resident_blocks) {
  int most = 1;
  ForEachOfChain(
      args, [&](const auto& step) { most = std::max(most, BlocksOf(step)); });
  return std::min(most, resident_blocks);
}

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_CHAIN_SHAPE_H_
