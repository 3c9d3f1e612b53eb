// How a product is cut: facts of its weights' shape alone.
#ifndef ESPALIER_COMMON_CUDA_PRODUCT_SHAPE_H_
#define ESPALIER_COMMON_CUDA_PRODUCT_SHAPE_H_

#include "common/cuda/layout.h"

namespace espalier::cuda {

inline constexpr int kMultiprocessors = 132;  // of an H100 and an H200

// `tests/device/run.sh tune` decides about these on a GPU: see ProductArgs.
inline constexpr int kProductBlocks = kMultiprocessors;
inline constexpr bool kWeightsLeaveCache = false;
inline constexpr int kWidestMultiply = 256;    // rows of an instruction; or 64
inline constexpr bool kTilesAreLarge = false;  // 192 outputs by 256 rows

// Strips of outputs that a block of threads takes, a warpgroup each.
ESPALIER_HOST_DEVICE constexpr int ProductGroups(int outputs) {
  return outputs / kStripOutputs % 3 == 0 ? 3 : 2;
}

// Ranges of the inputs that are summed apart, so that all multiprocessors have
// some. The consumer adds them in their order.
ESPALIER_HOST_DEVICE constexpr int ProductSplits(int outputs, int inputs) {
  constexpr int kMinTiles = 4;
  const int strips = outputs / kStripOutputs, groups = ProductGroups(outputs);
  const int blocks = (strips + groups - 1) / groups;
  const int wanted = kMultiprocessors / blocks;
  const int possible = inputs / kTileColumns / kMinTiles;
  const int splits = wanted < possible ? wanted : possible;
  return splits < 1 ? 1 : splits;
}

// Returns how many rows an item of a grouped product may have (ExpertItem).
ESPALIER_HOST_DEVICE constexpr int ExpertBlock(int rows, int per_row,
                                               int experts) {
  return rows * per_row > 16 * experts ? 64 : 16;
}
// Returns the largest number of items that `choices` rows of experts make.
ESPALIER_HOST_DEVICE constexpr int ExpertItems(int choices, int experts,
                                               int block) {
  const int distinct = choices < experts ? choices : experts;
  return (choices + distinct * (block - 1)) / block;
}

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_PRODUCT_SHAPE_H_
