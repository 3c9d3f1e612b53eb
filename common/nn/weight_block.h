#ifndef ESPALIER_COMMON_NN_WEIGHT_BLOCK_H_
#define ESPALIER_COMMON_NN_WEIGHT_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "common/nn/kernels.h"

namespace espalier::nn {

// kBlockInputs weights of one output, as BlockFormat says. Scales and minimums
// are those of the halves, which are the same where a group has all inputs.
struct WeightBlock {
  uint8_t codes[kBlockInputs] = {};
  float scales[2] = {};
  float minimums[2] = {};  // 0 where the format has none
};

inline bool SameFormat(const BlockFormat& a, const BlockFormat& b) {
  return a.bits == b.bits && a.minimums == b.minimums &&
         a.wide_scales == b.wide_scales && a.group == b.group;
}

// The narrowest format that has room for blocks of both.
BlockFormat CommonFormat(const BlockFormat& a, const BlockFormat& b);

// Returns the same weights in a wider format: CommonFormat of `from` and
// others. A block without minimums gets them where `to` has them. Codes of more
// than 7 bits have no room there: these weights, Q8_0's, are rounded once more.
WeightBlock Widen(const WeightBlock& block, const BlockFormat& from,
                  const BlockFormat& to);

// The weights that the block stands for: [kBlockInputs].
void Dequantize(const WeightBlock& block, const BlockFormat& format,
                float* out);

// Rounds weights, [kBlockInputs], with one scale for all of them. The largest
// and the smallest are within the codes. What is not finite makes the block so.
WeightBlock Quantize(const float* weights, const BlockFormat& format);

// Into and out of the block of a panel, for the output `lane`.
void StoreBlock(const WeightBlock& block, const BlockFormat& format,
                int64_t lane, std::byte* panel_block);
WeightBlock LoadBlock(const std::byte* panel_block, const BlockFormat& format,
                      int64_t lane);

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_WEIGHT_BLOCK_H_
