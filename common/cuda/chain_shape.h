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

// With fewer blocks, the products of a layer would take two rounds of them.
inline constexpr int kMinChainBlocks = 128;
// Sums of more rows do not fit the registers of 14 warps; beside weights that
// are widened from e4m3, fewer do.
inline constexpr int kMaxChainRows = 144, kMaxE4m3ChainRows = 80;
inline constexpr int kMaxChainColumns = 8192;  // of a row that is normalized

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
