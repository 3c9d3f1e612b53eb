// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_
#define ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_

#include <cstdint>

#include "common/nn/amx_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"

namespace espalier::nn {
namespace {

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
  // Fetched meanwhile: so many lines in every step, into the first-level cache
  // or the second.
  const std::byte* fetch = nullptr;
  int64_t fetch_lines = 0;
  bool fetch_near = false;
};

inline void FetchStep(const AmxBlock& block, const std::byte*& line) {
  for (int64_t i = 0; i < block.fetch_lines; ++i, line += kAmxRowBytes) {
    block.fetch_near ? __builtin_prefetch(line) : Fetch(line);
  }
}

// Sums of a block whose epilogue is still due. It is taken row by row in the
// steps of the block that follows, so that the fetching never pauses.
template <typename V>
class AmxEpilogue {
 public:
  explicit AmxEpilogue(const LinearArgs& args) : a_(args) {}

  // The sums of a panel and the rows `begin` .. `end` - 1, each a row of
  // [kPanelOutputs]; loss_sums are null if there are none. They must stay until
  // FinishAll.
  void Begin(int64_t panel, int64_t begin, int64_t end, float* sums,
             const float* loss_sums) {
    panel_ = panel;
    row_ = begin;
    end_ = end;
    sum_ = sums;
    loss_sum_ = loss_sums;
  }
  void FinishRow() {
    if (row_ == end_) return;
    if (loss_sum_ != nullptr) {
      Add<V>(kPanelOutputs, loss_sum_, sum_);
      loss_sum_ += kPanelOutputs;
    }
    Finish<V>(a_, panel_, sum_, a_.out + row_ * a_.out_stride);
    sum_ += kPanelOutputs;
    ++row_;
  }
  void FinishAll() {
    while (row_ < end_) FinishRow();
  }

 private:
  const LinearArgs& a_;
  int64_t panel_ = 0;
  int64_t row_ = 0;
  int64_t end_ = 0;
  float* sum_ = nullptr;
  const float* loss_sum_ = nullptr;
};

// sums, loss_sums: [rows][kPanelOutputs]. `due` is finished meanwhile.
template <typename V, typename Tiles, bool split>
void MultiplyBlock(const AmxBlock& block, AmxEpilogue<V>& due, float* sums,
                   float* loss_sums) {
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
    FetchStep(block, fetch);
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
    due.FinishRow();
    x += kAmxInputs * 2;
    weights += kAmxStepBytes;
  }
  due.FinishAll();
  constexpr int64_t kSumBytes = kPanelOutputs * 4;
  Tiles::template Store<kSums>(sums, kSumBytes);
  Tiles::template Store<kSums2>(sums + kAmxColumns, kSumBytes);
  if constexpr (split) {
    Tiles::template Store<kLossSums>(loss_sums, kSumBytes);
    Tiles::template Store<kLossSums2>(loss_sums + kAmxColumns, kSumBytes);
  }
}

// One block fetches shortly ahead of itself. Several share the next panel, so
// that memory is as busy as the tiles; it is more than the first-level cache
// has room for.
inline void FetchDuring(int64_t index, int64_t blocks, int64_t panel_bytes,
                        AmxBlock& block) {
  const int64_t step_lines = kAmxStepBytes / kAmxRowBytes;
  block.fetch_lines = (step_lines + blocks - 1) / blocks;
  const int64_t share =
      block.inputs / kAmxInputs * block.fetch_lines * kAmxRowBytes;
  block.fetch_near = blocks == 1;
  block.fetch =
      block.panel + (blocks == 1 ? kFetchAhead : panel_bytes + index * share);
}

// Multiplies bf16 operands, split or not.
template <typename V, typename Tiles>
void AmxLinear(const LinearArgs& a) {
  // The sums of the block at work and those of the one before it.
  alignas(64) float sums[2][kAmxRows * kPanelOutputs];
  alignas(64) float loss_sums[2][kAmxRows * kPanelOutputs];
  const bool split = a.operand == OperandType::kSplitBf16;
  const auto multiply =
      split ? MultiplyBlock<V, Tiles, true> : MultiplyBlock<V, Tiles, false>;
  const AmxBlocks blocks(a.rows);
  AmxEpilogue<V> due(a);
  int64_t turn = 0;
  Tiles::Configure(AmxConfigFor(blocks.size, kWeights));
  for (int64_t panel = a.panel_begin; panel < a.panel_end; ++panel) {
    const std::byte* const weights =
        a.weights.data + panel * a.weights.panel_bytes;
    for (int64_t index = 0; index < blocks.count; ++index, turn ^= 1) {
      const int64_t begin = blocks.Begin(index);
      AmxBlock block = {
          .x = static_cast<const std::byte*>(a.x) + begin * a.x_stride,
          .x_stride = a.x_stride,
          .inputs = PaddedInputs(a.weights.inputs),
          .panel = weights};
      FetchDuring(index, blocks.count, a.weights.panel_bytes, block);
      multiply(block, due, sums[turn], loss_sums[turn]);
      const int64_t again = index * blocks.size - begin;  // rows done before
      due.Begin(panel, begin + again, begin + blocks.size,
                sums[turn] + again * kPanelOutputs,
                split ? loss_sums[turn] + again * kPanelOutputs : nullptr);
    }
  }
  Tiles::Release();
  due.FinishAll();
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_LINEAR_AMX_INL_H_
