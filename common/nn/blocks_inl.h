// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
//
// Products of integers. I is the backend's vector of kLanes 32-bit integers: a
// struct with static functions that wrap one or a few instructions each, and
// with V, the vector of as many floats. Codes<true> are those of 8 bits without
// minimums; if kSignsCodes, 128 is taken off them.
#ifndef ESPALIER_COMMON_NN_BLOCKS_INL_H_
#define ESPALIER_COMMON_NN_BLOCKS_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"

namespace espalier::nn {
namespace {

struct BlockTileArgs {
  const std::byte* x = nullptr;  // first row's operand
  int64_t x_stride = 0;          // bytes
  const std::byte* panel = nullptr;
  BlockFormat format;
  int64_t blocks = 0;
  bool fetch = false;     // what comes kFetchAhead after the panel's blocks
  float* sums = nullptr;  // [rows][kPanelOutputs]
};

// One block of a panel, and the same inputs of the rows.
struct BlockStep {
  const BlockFormat& format;
  const std::byte* codes = nullptr;
  const RowBlock* row = nullptr;  // first row's
  int64_t row_stride = 0;         // in blocks

  const std::byte* scales() const { return codes + CodeBytes(format); }
  const RowBlock& Row(int64_t r) const { return row[r * row_stride]; }
};

// R rows times the panel, as many outputs at a time as there are registers for.
template <typename I, int bits, bool minimums>
struct BlockTile {
  using V = typename I::V;
  using Int = typename I::Int;
  static constexpr int kVectors = I::kVectors;
  static constexpr int kColumns = kVectors * I::kLanes;
  static constexpr int kParts = kPanelOutputs / kColumns;
  // Codes are unsigned: what they are too large by is taken off the sums.
  static constexpr bool kSigned = bits == 8 && !minimums;
  static constexpr int32_t kOffset = minimums ? 0
                                     : kSigned && I::kSignsCodes
                                         ? 0
                                         : 1 << (bits - 1);

  template <int R>
  struct Sums {
    typename V::Reg sum[R][kParts][kVectors];
  };

  template <int R>
  static void Run(const BlockTileArgs& t) {
    Sums<R> sums;
    for (auto& row : sums.sum) {
      for (auto& part : row) {
        for (auto& sum : part) sum = V::Set(0.0f);
      }
    }
    const int64_t bytes = BlockBytes(t.format);
    BlockStep step = {
        .format = t.format,
        .codes = t.panel,
        .row = reinterpret_cast<const RowBlock*>(t.x),
        .row_stride = t.x_stride / static_cast<int64_t>(sizeof(RowBlock))};
    for (int64_t block = 0; block < t.blocks; ++block) {
      if (t.fetch) {
        for (int64_t i = 0; i < bytes; i += 64) {
          Fetch(step.codes + kFetchAhead + i);
        }
      }
      for (int part = 0; part < kParts; ++part) {
        if (t.format.group == kBlockInputs) {
          AddGroup<R, kBlockInputs>(step, 0, part, sums);
        } else {
          AddGroup<R, kBlockInputs / 2>(step, 0, part, sums);
          AddGroup<R, kBlockInputs / 2>(step, 1, part, sums);
        }
      }
      step.codes += bytes;
      ++step.row;
    }
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < kParts * kVectors; ++i) {
        V::Store(t.sums + r * kPanelOutputs + i * I::kLanes,
                 sums.sum[r][i / kVectors][i % kVectors]);
      }
    }
  }

 private:
  // Sums of `group` inputs as integers, then scaled.
  template <int R, int group>
  static void AddGroup(const BlockStep& step, int64_t index, int part,
                       Sums<R>& sums) {
    Int products[R][kVectors];
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      const RowBlock& row = step.Row(r);
      const int32_t sum =
          group == kBlockInputs ? row.sum : row.half_sums[index];
      const Int start = I::Set(-kOffset * sum);
      ESPALIER_UNROLL
      for (int n = 0; n < kVectors; ++n) products[r][n] = start;
    }
    constexpr int kQuads = group / 4;
    const int64_t first = index * kQuads;
    const std::byte* const codes = step.codes + part * kColumns * 4;
    constexpr int64_t kRow = kPanelOutputs * 4;
    if constexpr (bits == 8) {
      for (int64_t quad = first; quad < first + kQuads; ++quad) {
        MultiplyQuad<R>(step, quad, products, [&](int n) {
          return I::Load(codes + quad * kRow + n * I::kLanes * 4);
        });
      }
    } else {
      for (int64_t quad = first; quad < first + kQuads; quad += 2) {
        Int both[kVectors];
        ESPALIER_UNROLL
        for (int n = 0; n < kVectors; ++n) {
          both[n] = I::Load(codes + quad / 2 * kRow + n * I::kLanes * 4);
        }
        MultiplyQuad<R>(step, quad, products,
                        [&](int n) { return I::LowHalves(both[n]); });
        MultiplyQuad<R>(step, quad + 1, products,
                        [&](int n) { return I::HighHalves(both[n]); });
      }
    }
    Scale<R, group>(step, index, part, products, sums);
  }

  template <int R, typename CodesOf>
  static void MultiplyQuad(const BlockStep& step, int64_t quad,
                           Int (&products)[R][kVectors], CodesOf codes_of) {
    typename I::template Codes<kSigned> codes[kVectors];
    ESPALIER_UNROLL
    for (int n = 0; n < kVectors; ++n) {
      codes[n] = typename I::template Codes<kSigned>(codes_of(n));
    }
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = I::SetQuad(step.Row(r).codes + quad * 4);
      ESPALIER_UNROLL
      for (int n = 0; n < kVectors; ++n) {
        products[r][n] = I::Dot(products[r][n], codes[n], x);
      }
    }
  }

  template <int R, int group>
  static void Scale(const BlockStep& step, int64_t index, int part,
                    const Int (&products)[R][kVectors], Sums<R>& sums) {
    ESPALIER_UNROLL
    for (int n = 0; n < kVectors; ++n) {
      const int64_t at =
          index * kPanelOutputs + part * kColumns + n * I::kLanes;
      const typename V::Reg scale = LoadScales(step, step.scales(), at);
      typename V::Reg minimum;
      if constexpr (minimums) {
        minimum = LoadScales(step, step.scales() + ScaleBytes(step.format), at);
      }
      ESPALIER_UNROLL
      for (int r = 0; r < R; ++r) {
        const RowBlock& row = step.Row(r);
        typename V::Reg& sum = sums.sum[r][part][n];
        sum = I::MulAdd(I::ToFloat(products[r][n]),
                        V::Mul(scale, V::Set(row.scale)), sum);
        if constexpr (minimums) {
          const float scaled_sum = group == kBlockInputs
                                       ? row.scaled_sum
                                       : row.half_scaled_sums[index];
          sum = I::MulAdd(minimum, V::Set(scaled_sum), sum);
        }
      }
    }
  }

  static typename V::Reg LoadScales(const BlockStep& step,
                                    const std::byte* scales, int64_t at) {
    return step.format.wide_scales
               ? V::Load(reinterpret_cast<const float*>(scales) + at)
               : I::LoadF16(scales + at * 2);
  }
};

using BlockTileRun = void (*)(const BlockTileArgs&);

// The tile of a kind for 1 <= rows <= R.
template <typename Kind, int R>
BlockTileRun BlockTileFor(int64_t rows) {
  if constexpr (R > 1) {
    if (rows < R) return BlockTileFor<Kind, R - 1>(rows);
  }
  return Kind::template Run<R>;
}

template <typename I>
BlockTileRun ChooseBlockTile(const BlockFormat& format, int64_t rows) {
  constexpr int R = I::kTileRows;
  if (format.bits == 8) {
    return format.minimums ? BlockTileFor<BlockTile<I, 8, true>, R>(rows)
                           : BlockTileFor<BlockTile<I, 8, false>, R>(rows);
  }
  return format.minimums ? BlockTileFor<BlockTile<I, 4, true>, R>(rows)
                         : BlockTileFor<BlockTile<I, 4, false>, R>(rows);
}

template <typename I>
void LinearOfBlocks(const LinearArgs& a) {
  alignas(64) float sums[I::kTileRows * kPanelOutputs];
  const int64_t tiles = (a.rows + I::kTileRows - 1) / I::kTileRows;
  for (int64_t panel = a.panel_begin; panel < a.panel_end; ++panel) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = a.rows * tile / tiles;
      const int64_t rows = a.rows * (tile + 1) / tiles - begin;
      ChooseBlockTile<I>(a.weights.format, rows)(
          {.x = static_cast<const std::byte*>(a.x) + begin * a.x_stride,
           .x_stride = a.x_stride,
           .panel = a.weights.data + panel * a.weights.panel_bytes,
           .format = a.weights.format,
           .blocks = PaddedInputs(a.weights.inputs) / kBlockInputs,
           .fetch = tile == 0,
           .sums = sums});
      for (int64_t r = 0; r < rows; ++r) {
        Finish<typename I::V>(a, panel, sums + r * kPanelOutputs,
                              a.out + (begin + r) * a.out_stride);
      }
    }
  }
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_BLOCKS_INL_H_
