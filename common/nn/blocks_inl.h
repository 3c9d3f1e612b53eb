// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
//
// Products of integers. I is the backend's vector of kLanes 32-bit integers: a
// struct with static functions that wrap one or a few instructions each, and
// with V, the vector of as many floats. Codes<true> are those of 8 bits without
// minimums; if kSignsCodes, 128 is taken off them.
//
// A tile of rows is multiplied with some blocks of a panel at a time, between
// which its sums wait in memory: so the blocks are read from the first-level
// cache by all tiles. Where there are registers for them, the sums of up to
// I::kHeldRows rows stay there meanwhile. Each tile unpacks codes of 4 bits in
// registers, which costs next to no time beside the products. Unpacked in
// memory, they took stores of twice the bytes.
#ifndef ESPALIER_COMMON_NN_BLOCKS_INL_H_
#define ESPALIER_COMMON_NN_BLOCKS_INL_H_

#include <cstdint>
#include <type_traits>

#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/row_blocks_inl.h"

namespace espalier::nn {
namespace {

struct BlockTileArgs {
  const std::byte* rows = nullptr;  // the first row's first block
  int64_t row_stride = 0;           // bytes
  const std::byte* weights = nullptr;
  BlockFormat format;  // of the weights
  int64_t blocks = 0;
  const std::byte* next = nullptr;  // as many blocks, fetched meanwhile
  float* sums = nullptr;            // [rows][kPanelOutputs], added to
};

inline const RowBlock& HighOf(const RowBlock& block) { return block; }
inline const RowBlock& HighOf(const FineRowBlock& block) { return block.high; }

template <typename I>
typename I::V::Reg LoadScales(bool wide, const std::byte* scales, int64_t at) {
  return wide ? I::V::Load(reinterpret_cast<const float*>(scales) + at)
              : I::LoadF16(scales + at * 2);
}

// R rows times some blocks of a panel, as many outputs at a time as there are
// registers for. Row: RowBlock or FineRowBlock.
template <typename I, typename Row, int bits, bool minimums>
struct BlockTile {
  using V = typename I::V;
  using Int = typename I::Int;
  static constexpr bool kFine = sizeof(Row) == sizeof(FineRowBlock);
  static constexpr int kVectors = I::kVectors;
  static constexpr int kColumns = kVectors * I::kLanes;
  static constexpr int kParts = kPanelOutputs / kColumns;
  static_assert(I::kHeldRows == 0 || kParts == 1);
  // Codes are unsigned: what they are too large by, 2^kOffsetBits, is taken off
  // the sums.
  static constexpr bool kSigned = bits == 8 && !minimums;
  static constexpr bool kHasOffset = !minimums && !(kSigned && I::kSignsCodes);
  static constexpr int kOffsetBits = bits - 1;

  template <int R>
  static void Run(const BlockTileArgs& t) {
    const int64_t bytes = BlockBytes(t.format);  // once: it takes divisions
    Step step = {.codes = t.weights,
                 .scales = t.weights + CodeBytes(t.format),
                 .scale_bytes = ScaleBytes(t.format),
                 .wide = t.format.wide_scales,
                 .next = t.next,
                 .next_scales = t.next + CodeBytes(t.format),
                 .row = t.rows,
                 .row_stride = t.row_stride};
    std::conditional_t<(R <= I::kHeldRows), HeldSums<R>, WaitingSums> sums(
        t.sums);
    for (int64_t block = 0; block < t.blocks; ++block) {
      for (int part = 0; part < kParts; ++part) {
        if (bits == 4 || t.format.group == kBlockInputs) {
          AddGroup<R, kBlockInputs>(step, 0, part, sums);
        } else if constexpr (bits == 8) {
          AddGroup<R, kHalfInputs>(step, 0, part, sums);
          AddGroup<R, kHalfInputs>(step, 1, part, sums);
        }
      }
      step.codes += bytes;
      step.scales += bytes;
      step.next += bytes;
      step.next_scales += bytes;
      step.row += sizeof(Row);
    }
    sums.StoreAll(t.sums);
  }

 private:
  // Sums of some rows and a panel, in memory or in registers.
  struct WaitingSums {
    float* sums = nullptr;

    explicit WaitingSums(float* all) : sums(all) {}
    typename V::Reg Get(int r, int, int64_t lane) const {
      return V::Load(sums + r * kPanelOutputs + lane);
    }
    void Put(int r, int, int64_t lane, typename V::Reg sum) {
      V::Store(sums + r * kPanelOutputs + lane, sum);
    }
    void StoreAll(float*) const {}
  };
  template <int R>
  struct HeldSums {
    typename V::Reg sums[R][kVectors];

    explicit HeldSums(const float* all) {
      ESPALIER_UNROLL
      for (int r = 0; r < R; ++r) {
        ESPALIER_UNROLL
        for (int n = 0; n < kVectors; ++n) {
          sums[r][n] = V::Load(all + r * kPanelOutputs + n * I::kLanes);
        }
      }
    }
    typename V::Reg Get(int r, int n, int64_t) const { return sums[r][n]; }
    void Put(int r, int n, int64_t, typename V::Reg sum) { sums[r][n] = sum; }
    void StoreAll(float* all) const {
      ESPALIER_UNROLL
      for (int r = 0; r < R; ++r) {
        ESPALIER_UNROLL
        for (int n = 0; n < kVectors; ++n) {
          V::Store(all + r * kPanelOutputs + n * I::kLanes, sums[r][n]);
        }
      }
    }
  };

  // One block of a panel, and the same inputs of the rows.
  struct Step {
    const std::byte* codes = nullptr;
    const std::byte* scales = nullptr;
    int64_t scale_bytes = 0;  // from scales to minimums
    bool wide = false;
    const std::byte* next = nullptr;  // the block to fetch
    const std::byte* next_scales = nullptr;
    const std::byte* row = nullptr;  // first row's block
    int64_t row_stride = 0;          // bytes

    const Row& RowAt(int64_t r) const {
      return *reinterpret_cast<const Row*>(row + r * row_stride);
    }
    // Fetching is done in steps, beside the arithmetic: a core has no buffers
    // for the lines of a whole block. `bytes` from `at` on: of this block.
    template <int64_t bytes>
    void FetchCodes(int64_t at) const {
      ESPALIER_UNROLL
      for (int64_t i = 0; i < bytes; i += 64) Fetch(next + at + i);
    }
    template <int64_t bytes>
    void FetchScales(int64_t at) const {
      ESPALIER_UNROLL
      for (int64_t i = 0; i < bytes; i += 64) Fetch(next_scales + at + i);
    }
  };

  // Sums of `group` inputs as integers, then scaled.
  template <int R, int group, typename Sums>
  static void AddGroup(const Step& step, int64_t index, int part, Sums& sums) {
    Int products[R][kVectors];
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      const Int start = kFine ? I::Set(0) : Offset<group>(step.RowAt(r), index);
      ESPALIER_UNROLL
      for (int n = 0; n < kVectors; ++n) products[r][n] = start;
    }
    Multiply<R, group>(step, index, part, products,
                       [&](int r) { return HighOf(step.RowAt(r)).codes; });
    if constexpr (kFine) {
      ESPALIER_UNROLL
      for (int r = 0; r < R; ++r) {
        const Int offset = Offset<group>(step.RowAt(r), index);
        ESPALIER_UNROLL
        for (int n = 0; n < kVectors; ++n) {
          products[r][n] =
              I::Add(I::template ShiftLeft<7>(products[r][n]), offset);
        }
      }
      Multiply<R, group>(step, index, part, products,
                         [&](int r) { return step.RowAt(r).low; });
    }
    Scale<R, group>(step, index, part, products, sums);
  }
  static_assert(kFineSteps == 1 << 7);

  // Returns what has to be added to the sum of the products, which is too
  // large.
  template <int group>
  static Int Offset(const Row& row, int64_t index) {
    if constexpr (kHasOffset) {
      const RowBlock& high = HighOf(row);
      return I::template ShiftLeft<kOffsetBits>(
          I::Set(group == kBlockInputs ? high.minus_sum
                                       : high.minus_half_sums[index]));
    } else {
      return I::Set(0);
    }
  }

  // codes_of(r): the row's.
  template <int R, int group, typename CodesOf>
  static void Multiply(const Step& step, int64_t index, int part,
                       Int (&products)[R][kVectors], CodesOf codes_of) {
    constexpr int kQuads = group / 4;
    const int64_t first = index * kQuads;
    const std::byte* const codes = step.codes + part * kColumns * 4;
    constexpr int64_t kRow = kPanelOutputs * 4;
    if constexpr (bits == 8) {
      for (int64_t quad = first; quad < first + kQuads; ++quad) {
        step.template FetchCodes<kColumns * 4>(part * kColumns * 4 +
                                               quad * kRow);
        MultiplyQuad<R>(quad, products, codes_of, [&](int n) {
          return I::Load(codes + quad * kRow + n * I::kLanes * 4);
        });
      }
    } else {
      for (int64_t quad = first; quad < first + kQuads; quad += 2) {
        step.template FetchCodes<kColumns * 4>(part * kColumns * 4 +
                                               quad / 2 * kRow);
        Int both[kVectors];
        ESPALIER_UNROLL
        for (int n = 0; n < kVectors; ++n) {
          both[n] = I::Load(codes + quad / 2 * kRow + n * I::kLanes * 4);
        }
        MultiplyQuad<R>(quad, products, codes_of,
                        [&](int n) { return I::LowHalves(both[n]); });
        MultiplyQuad<R>(quad + 1, products, codes_of,
                        [&](int n) { return I::HighHalves(both[n]); });
      }
    }
  }

  template <int R, typename CodesOf, typename WeightsOf>
  static void MultiplyQuad(int64_t quad, Int (&products)[R][kVectors],
                           CodesOf codes_of, WeightsOf weights_of) {
    typename I::template Codes<kSigned> weights[kVectors];
    ESPALIER_UNROLL
    for (int n = 0; n < kVectors; ++n) {
      weights[n] = typename I::template Codes<kSigned>(weights_of(n));
    }
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = I::SetQuad(codes_of(r) + quad * 4);
      ESPALIER_UNROLL
      for (int n = 0; n < kVectors; ++n) {
        products[r][n] = I::Dot(products[r][n], weights[n], x);
      }
    }
  }

  // Fetches the scales of the lanes that the codes belong to.
  template <typename Scale>
  static void FetchScales(const Step& step, int64_t index, int part) {
    const int64_t at = (index * kPanelOutputs + part * kColumns) *
                       static_cast<int64_t>(sizeof(Scale));
    step.template FetchScales<kColumns * sizeof(Scale)>(at);
    if constexpr (minimums) {
      step.template FetchScales<kColumns * sizeof(Scale)>(step.scale_bytes +
                                                          at);
    }
  }

  template <int R, int group, typename Sums>
  static void Scale(const Step& step, int64_t index, int part,
                    const Int (&products)[R][kVectors], Sums& sums) {
    step.wide ? FetchScales<float>(step, index, part)
              : FetchScales<uint16_t>(step, index, part);
    ESPALIER_UNROLL
    for (int n = 0; n < kVectors; ++n) {
      const int64_t lane = part * kColumns + n * I::kLanes;
      const int64_t at = index * kPanelOutputs + lane;
      const typename V::Reg scale = LoadScales<I>(step.wide, step.scales, at);
      typename V::Reg minimum;
      if constexpr (minimums) {
        minimum = LoadScales<I>(step.wide, step.scales + step.scale_bytes, at);
      }
      ESPALIER_UNROLL
      for (int r = 0; r < R; ++r) {
        const RowBlock& row = HighOf(step.RowAt(r));
        typename V::Reg sum =
            I::MulAdd(I::ToFloat(products[r][n]),
                      V::Mul(scale, V::Set(row.scale)), sums.Get(r, n, lane));
        if constexpr (minimums) {
          const float scaled_sum = group == kBlockInputs
                                       ? row.scaled_sum
                                       : row.half_scaled_sums[index];
          sum = I::MulAdd(minimum, V::Set(scaled_sum), sum);
        }
        sums.Put(r, n, lane, sum);
      }
    }
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

template <typename I, typename Row, int bits>
BlockTileRun ChooseBlockTile(const BlockFormat& format, int64_t rows) {
  constexpr int R = I::kTileRows;
  return format.minimums
             ? BlockTileFor<BlockTile<I, Row, bits, true>, R>(rows)
             : BlockTileFor<BlockTile<I, Row, bits, false>, R>(rows);
}

template <typename I, typename Row>
BlockTileRun ChooseBlockTile(const BlockFormat& format, int64_t rows) {
  return format.bits == 8 ? ChooseBlockTile<I, Row, 8>(format, rows)
                          : ChooseBlockTile<I, Row, 4>(format, rows);
}

// Blocks that all tiles of rows are multiplied with in turn: they and the rows'
// share of the first-level cache.
constexpr int64_t kSegmentBlocks = 8;
// Rows whose sums wait: their number decides how often blocks are read again.
constexpr int64_t kWaitingRows = 64;

// All tiles of some rows times one panel. fetch: the first tile fetches what
// comes after its weights; another one fetches its own, which are in the cache.
template <typename I, typename Row>
void AddPanel(const LinearArgs& a, const std::byte* panel, int64_t first_row,
              int64_t num_rows, bool fetch, float* sums) {
  const int64_t blocks = PaddedInputs(a.weights.inputs) / kBlockInputs;
  const int64_t tiles = (num_rows + I::kTileRows - 1) / I::kTileRows;
  const int64_t segment = tiles == 1 ? blocks : kSegmentBlocks;
  const int64_t bytes = BlockBytes(a.weights.format);
  for (int64_t block = 0; block < blocks; block += segment) {
    const int64_t left = blocks - block;
    const std::byte* const weights = panel + block * bytes;
    BlockTileArgs t = {.row_stride = a.x_stride,
                       .weights = weights,
                       .format = a.weights.format,
                       .blocks = left < segment ? left : segment};
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = num_rows * tile / tiles;
      const int64_t rows = num_rows * (tile + 1) / tiles - begin;
      t.rows = static_cast<const std::byte*>(a.x) +
               (first_row + begin) * a.x_stride +
               block * static_cast<int64_t>(sizeof(Row));
      t.next = weights + (fetch && tile == 0 ? kFetchAhead : 0);
      t.sums = sums + begin * kPanelOutputs;
      ChooseBlockTile<I, Row>(t.format, rows)(t);
    }
  }
}

template <typename I, typename Row>
void LinearOfRowBlocks(const LinearArgs& a) {
  alignas(64) float sums[kWaitingRows * kPanelOutputs];
  for (int64_t panel = a.panel_begin; panel < a.panel_end; ++panel) {
    for (int64_t row = 0; row < a.rows; row += kWaitingRows) {
      const int64_t left = a.rows - row;
      const int64_t rows = left < kWaitingRows ? left : kWaitingRows;
      __builtin_memset(sums, 0, rows * kPanelOutputs * sizeof(float));
      AddPanel<I, Row>(a, a.weights.data + panel * a.weights.panel_bytes, row,
                       rows, /*fetch=*/row == 0, sums);
      for (int64_t r = 0; r < rows; ++r) {
        Finish<typename I::V>(a, panel, sums + r * kPanelOutputs,
                              a.out + (row + r) * a.out_stride);
      }
    }
  }
}

template <typename I>
void LinearOfBlocks(const LinearArgs& a) {
  a.operand == OperandType::kFineBlocks ? LinearOfRowBlocks<I, FineRowBlock>(a)
                                        : LinearOfRowBlocks<I, RowBlock>(a);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_BLOCKS_INL_H_
