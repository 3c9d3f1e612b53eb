// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_ROW_BLOCKS_INL_H_
#define ESPALIER_COMMON_NN_ROW_BLOCKS_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"

namespace espalier::nn {
namespace {

// One block at a time, in plain C++.
struct PlainBlocks {
  // The bits of the largest size. As integers, sizes have the order that they
  // have as floats, and what is not finite comes last.
  static uint32_t Peak(const float* x) {
    uint32_t peak = 0;
    for (int64_t i = 0; i < kBlockInputs; ++i) {
      const uint32_t size = __builtin_bit_cast(uint32_t, x[i]) & 0x7FFFFFFF;
      peak = size > peak ? size : peak;
    }
    return peak;
  }
  // The codes and the sums of their halves. Adding 1.5 * 2^23 leaves no room
  // for a fraction: it rounds to the nearest, ties to even.
  static void Round(const float* x, float steps, RowBlock& block) {
    constexpr float kRound = 0x1.8p23f;
    block.half_sums[0] = block.half_sums[1] = 0;
    for (int64_t i = 0; i < kBlockInputs; ++i) {
      const auto code = static_cast<int32_t>((x[i] * steps + kRound) - kRound);
      block.codes[i] = static_cast<int8_t>(code);
      block.half_sums[i / (kBlockInputs / 2)] += code;
    }
  }
};

// B: how a block is rounded, see PlainBlocks.
template <typename B>
void RoundBlock(const float* x, RowBlock& block) {
  constexpr float kLargest = 127;
  constexpr uint32_t kInfinity = 0x7F800000;
  constexpr uint32_t kTiny = 0x0D000000;  // about 4e-31: 127 / x is finite
  const uint32_t peak = B::Peak(x);
  if (peak < kTiny || peak >= kInfinity) {
    __builtin_memset(&block, 0, sizeof(block));
    block.scale = peak < kTiny ? 0.0f : __builtin_nanf("");
    block.scaled_sum = block.half_scaled_sums[0] = block.half_scaled_sums[1] =
        block.scale;
    return;
  }
  const float most = __builtin_bit_cast(float, peak);
  B::Round(x, kLargest / most, block);
  block.scale = most / kLargest;
  block.sum = block.half_sums[0] + block.half_sums[1];
  block.scaled_sum = block.scale * static_cast<float>(block.sum);
  for (int64_t half = 0; half < 2; ++half) {
    block.half_scaled_sums[half] =
        block.scale * static_cast<float>(block.half_sums[half]);
  }
  block.unused = 0;
}

// A row of float32 to blocks.
template <typename B>
void PrepareRowBlocks(const PrepareArgs& a) {
  RowBlock* block = static_cast<RowBlock*>(a.out);
  const int64_t whole = a.inputs / kBlockInputs * kBlockInputs;
  for (int64_t i = 0; i < whole; i += kBlockInputs, ++block) {
    RoundBlock<B>(a.x + i, *block);
  }
  if (whole == a.inputs) return;
  float rest[kBlockInputs] = {};
  __builtin_memcpy(rest, a.x + whole, (a.inputs - whole) * sizeof(float));
  RoundBlock<B>(rest, *block);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ROW_BLOCKS_INL_H_
