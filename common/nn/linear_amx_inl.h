// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_
#define ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"

namespace espalier::nn {

// A tile has up to 16 rows of 64 bytes. A step of a product takes 32 inputs of
// 16 rows and both halves of a panel, whose layout is that of two tiles side by
// side.
inline constexpr int64_t kAmxRows = 16;
inline constexpr int64_t kAmxInputs = 32;
inline constexpr int64_t kAmxOutputs = 16;
inline constexpr int64_t kAmxRowBytes = 64;

// What the CPU's tiles are used for; the order is that of ldtilecfg.
enum AmxTile {
  kSums,      // [rows][16] float32: of the rounded rows, first half of a panel
  kSums2,     // second half
  kLossSums,  // of what rounding took off
  kLossSums2,
  kRows,  // [rows][32] bf16
  kLossRows,
  kWeights,  // [16 pairs][16 outputs][2] bf16
  kWeights2,
  kNumAmxTiles,
};

struct alignas(64) AmxConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

inline AmxConfig AmxConfigFor(int64_t rows) {
  AmxConfig config;
  for (int tile = 0; tile < kNumAmxTiles; ++tile) {
    config.row_bytes[tile] = kAmxRowBytes;
    config.rows[tile] = static_cast<uint8_t>(tile < kWeights ? rows : kAmxRows);
  }
  return config;
}

inline constexpr int64_t kAmxStepBytes = kAmxInputs * kPanelOutputs * 2;

// One panel times one block of rows.
struct AmxBlock {
  const std::byte* x = nullptr;  // operand of the first row
  int64_t x_stride = 0;          // bytes
  int64_t inputs = 0;            // padded
  const std::byte* panel = nullptr;
  // Fetched meanwhile: so many lines in every step.
  const std::byte* fetch = nullptr;
  int64_t fetch_lines = 0;
};

// sums, loss_sums: [rows][kPanelOutputs]. Tiles wraps one instruction in each
// of its functions.
template <typename Tiles, bool split>
void MultiplyBlock(const AmxBlock& block, float* sums, float* loss_sums) {
  constexpr int64_t kPairBytes = kPanelOutputs * 4;
  Tiles::template Zero<kSums>();
  Tiles::template Zero<kSums2>();
  if constexpr (split) {
    Tiles::template Zero<kLossSums>();
    Tiles::template Zero<kLossSums2>();
  }
  const std::byte* x = block.x;
  const std::byte* weights = block.panel;
  const std::byte* fetch = block.fetch;
  for (int64_t k = 0; k < block.inputs; k += kAmxInputs) {
    for (int64_t line = 0; line < block.fetch_lines; ++line) {
      Fetch(fetch);
      fetch += kAmxRowBytes;
    }
    Tiles::template Load<kWeights>(weights, kPairBytes);
    Tiles::template Load<kWeights2>(weights + kAmxRowBytes, kPairBytes);
    Tiles::template Load<kRows>(x, block.x_stride);
    Tiles::template MultiplyAdd<kSums, kRows, kWeights>();
    Tiles::template MultiplyAdd<kSums2, kRows, kWeights2>();
    if constexpr (split) {
      Tiles::template Load<kLossRows>(x + block.inputs * 2, block.x_stride);
      Tiles::template MultiplyAdd<kLossSums, kLossRows, kWeights>();
      Tiles::template MultiplyAdd<kLossSums2, kLossRows, kWeights2>();
    }
    x += kAmxInputs * 2;
    weights += kAmxStepBytes;
  }
  constexpr int64_t kSumBytes = kPanelOutputs * 4;
  Tiles::template Store<kSums>(sums, kSumBytes);
  Tiles::template Store<kSums2>(sums + kAmxOutputs, kSumBytes);
  if constexpr (split) {
    Tiles::template Store<kLossSums>(loss_sums, kSumBytes);
    Tiles::template Store<kLossSums2>(loss_sums + kAmxOutputs, kSumBytes);
  }
}

// One block fetches shortly ahead of itself. Several share the next panel, so
// that memory is as busy as the tiles.
inline void FetchDuring(int64_t index, int64_t blocks, int64_t panel_bytes,
                        AmxBlock& block) {
  const int64_t step_lines = kAmxStepBytes / kAmxRowBytes;
  block.fetch_lines = (step_lines + blocks - 1) / blocks;
  const int64_t share =
      block.inputs / kAmxInputs * block.fetch_lines * kAmxRowBytes;
  block.fetch =
      block.panel + (blocks == 1 ? kFetchAhead : panel_bytes + index * share);
}

// Of bf16 operands, split or not.
template <typename V, typename Tiles>
void AmxLinear(const LinearArgs& a) {
  alignas(64) float sums[kAmxRows * kPanelOutputs];
  alignas(64) float loss_sums[kAmxRows * kPanelOutputs];
  const bool split = a.operand == OperandType::kSplitBf16;
  const auto multiply =
      split ? MultiplyBlock<Tiles, true> : MultiplyBlock<Tiles, false>;
  // Blocks of one size, so that the tiles are configured once; the last may
  // begin inside the one before it.
  const int64_t blocks = (a.rows + kAmxRows - 1) / kAmxRows;
  const int64_t rows = (a.rows + blocks - 1) / blocks;
  Tiles::Configure(AmxConfigFor(rows));
  for (int64_t panel = a.panel_begin; panel < a.panel_end; ++panel) {
    for (int64_t index = 0; index < blocks; ++index) {
      const int64_t done = index * rows;
      const int64_t begin = done + rows <= a.rows ? done : a.rows - rows;
      AmxBlock block = {
          .x = static_cast<const std::byte*>(a.x) + begin * a.x_stride,
          .x_stride = a.x_stride,
          .inputs = PaddedInputs(a.weights.inputs),
          .panel = a.weights.data + panel * a.weights.panel_bytes};
      FetchDuring(index, blocks, a.weights.panel_bytes, block);
      multiply(block, sums, loss_sums);
      for (int64_t r = done - begin; r < rows; ++r) {
        float* const sum = sums + r * kPanelOutputs;
        if (split) Add<V>(kPanelOutputs, loss_sums + r * kPanelOutputs, sum);
        Finish<V>(a, panel, sum, a.out + (begin + r) * a.out_stride);
      }
    }
  }
  Tiles::Release();
}

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_
