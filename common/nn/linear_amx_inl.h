// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_
#define ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_

#include <cstdint>

#include "common/nn/amx_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"

namespace espalier::nn {

enum AmxLinearTile {
  kSums,      // [rows][16] float32: of the rounded rows, first half of a panel
  kSums2,     // second half
  kLossSums,  // of what rounding took off
  kLossSums2,
  kRows,  // [rows][32] bf16
  kLossRows,
  kWeights,  // [16 pairs][16 outputs][2] bf16
  kWeights2,
};

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

// sums, loss_sums: [rows][kPanelOutputs].
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
  Tiles::template Store<kSums2>(sums + kAmxColumns, kSumBytes);
  if constexpr (split) {
    Tiles::template Store<kLossSums>(loss_sums, kSumBytes);
    Tiles::template Store<kLossSums2>(loss_sums + kAmxColumns, kSumBytes);
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
  const AmxBlocks blocks(a.rows);
  Tiles::Configure(AmxConfigFor(blocks.size, kWeights));
  for (int64_t panel = a.panel_begin; panel < a.panel_end; ++panel) {
    const std::byte* const weights = ReadyPanel(a, panel);
    for (int64_t index = 0; index < blocks.count; ++index) {
      const int64_t begin = blocks.Begin(index);
      AmxBlock block = {
          .x = static_cast<const std::byte*>(a.x) + begin * a.x_stride,
          .x_stride = a.x_stride,
          .inputs = PaddedInputs(a.weights.inputs),
          .panel = weights};
      if (a.weights.type == WeightType::kBf16) {
        FetchDuring(index, blocks.count, a.weights.panel_bytes, block);
      }
      multiply(block, sums, loss_sums);
      for (int64_t r = index * blocks.size - begin; r < blocks.size; ++r) {
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
