// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_ROW_BLOCKS_INL_H_
#define ESPALIER_COMMON_NN_ROW_BLOCKS_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"

namespace espalier::nn {
namespace {

constexpr int64_t kHalfInputs = kBlockInputs / 2;

// The codes of a block and their sums by halves.
struct RowCodes {
  int8_t codes[kBlockInputs];
  int32_t half_sums[2];
};

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
  // x * steps to the nearest, ties to even. `rest`, unless null: what that took
  // off, exactly.
  static void Round(const float* x, float steps, RowCodes& out, float* rest) {
    // Leaves no room for a fraction.
    constexpr float kRound = 0x1.8p23f;
    out.half_sums[0] = out.half_sums[1] = 0;
    for (int64_t i = 0; i < kBlockInputs; ++i) {
      const float scaled = x[i] * steps;
      const float rounded = (scaled + kRound) - kRound;
      const auto code = static_cast<int32_t>(rounded);
      out.codes[i] = static_cast<int8_t>(code);
      out.half_sums[i / kHalfInputs] += code;
      if (rest != nullptr) rest[i] = scaled - rounded;
    }
  }
};

// Sets what follows from the scale and the sums of the codes.
inline void SetSums(float scale, int32_t first, int32_t second,
                    RowBlock& block) {
  block.scale = scale;
  block.scaled_sum = scale * static_cast<float>(first + second);
  block.minus_sum = -(first + second);
  block.half_scaled_sums[0] = scale * static_cast<float>(first);
  block.half_scaled_sums[1] = scale * static_cast<float>(second);
  block.minus_half_sums[0] = -first;
  block.minus_half_sums[1] = -second;
  block.unused = 0;
}

// 0 if there is nothing to round, NaN where not all is finite: then the block
// is that. Else the largest size.
inline float Most(uint32_t peak) {
  constexpr uint32_t kInfinity = 0x7F800000;
  constexpr uint32_t kTiny = 0x0D000000;  // about 4e-31: 127 / x is finite
  if (peak < kTiny) return 0;
  return peak < kInfinity ? __builtin_bit_cast(float, peak)
                          : __builtin_nanf("");
}

// B: how a block is rounded, see PlainBlocks.
template <typename B>
void RoundBlock(const float* x, RowBlock& block) {
  constexpr float kLargest = 127;
  const float most = Most(B::Peak(x));
  RowCodes high = {};
  if (most > 0) B::Round(x, kLargest / most, high, /*rest=*/nullptr);
  __builtin_memcpy(block.codes, high.codes, sizeof(high.codes));
  SetSums(most / kLargest, high.half_sums[0], high.half_sums[1], block);
}

template <typename B>
void RoundBlock(const float* x, FineRowBlock& block) {
  constexpr float kLargest = 127, kSteps = kFineSteps;
  const float most = Most(B::Peak(x));
  RowCodes high = {}, low = {};
  if (most > 0) {
    float rest[kBlockInputs];
    B::Round(x, kLargest / most, high, rest);
    B::Round(rest, kSteps, low, /*rest=*/nullptr);
  }
  __builtin_memcpy(block.high.codes, high.codes, sizeof(high.codes));
  __builtin_memcpy(block.low, low.codes, sizeof(low.codes));
  SetSums(most / kLargest / kSteps,
          high.half_sums[0] * kFineSteps + low.half_sums[0],
          high.half_sums[1] * kFineSteps + low.half_sums[1], block.high);
}

// A row of float32 to blocks of a kind.
template <typename B, typename Block>
void RoundRow(const PrepareArgs& a) {
  Block* block = static_cast<Block*>(a.out);
  const int64_t whole = a.inputs / kBlockInputs * kBlockInputs;
  for (int64_t i = 0; i < whole; i += kBlockInputs, ++block) {
    RoundBlock<B>(a.x + i, *block);
  }
  if (whole == a.inputs) return;
  float rest[kBlockInputs] = {};
  __builtin_memcpy(rest, a.x + whole, (a.inputs - whole) * sizeof(float));
  RoundBlock<B>(rest, *block);
}

template <typename B>
void PrepareRowBlocks(const PrepareArgs& a) {
  a.type == OperandType::kFineBlocks ? RoundRow<B, FineRowBlock>(a)
                                     : RoundRow<B, RowBlock>(a);
}

inline bool IsBlocks(OperandType type) {
  return type == OperandType::kBlocks || type == OperandType::kFineBlocks;
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ROW_BLOCKS_INL_H_
