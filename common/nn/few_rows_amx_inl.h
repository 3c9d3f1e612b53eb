// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
//
// Products of integers on AMX's tiles where rows are few, as in a draft tree.
// Tiles multiply one block after another, over the borders of panels. Vectors
// unpack codes some blocks ahead of them and scale what the tiles left some
// blocks behind them: what one unit reads has then left the store buffer of the
// other. Sums stay in registers over a whole panel and are added in the order
// of blocks_inl.h, so the bits are the same.
#ifndef ESPALIER_COMMON_NN_FEW_ROWS_AMX_INL_H_
#define ESPALIER_COMMON_NN_FEW_ROWS_AMX_INL_H_

#include <cstdint>

#include "common/nn/amx_inl.h"
#include "common/nn/blocks_amx_inl.h"
#include "common/nn/blocks_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/row_blocks_inl.h"

namespace espalier::nn {
namespace {

// Rows for which there are registers.
inline constexpr int kFewestFewRows = 4;
inline constexpr int kMaxFewRows = 12;

#define ESPALIER_INLINE __attribute__((always_inline))

// Row: RowBlock or FineRowBlock. R rows.
template <typename I, typename Tiles, typename Row, int bits, bool minimums,
          int R>
class AmxFewRows {
 public:
  explicit AmxFewRows(const LinearArgs& args)
      : a_(args),
        blocks_(PaddedInputs(args.weights.inputs) / kBlockInputs),
        steps_((args.panel_end - args.panel_begin) * blocks_),
        bytes_(BlockBytes(args.weights.format)),
        weights_(args.weights.data +
                 args.panel_begin * args.weights.panel_bytes) {}

  void Run() {
    Tiles::Configure(AmxBlockConfigFor(R));
    Sums sums;
    Clear(sums);
    for (int64_t step = 0; step < kAhead; ++step) Unpack(step);
    int64_t panel = a_.panel_begin;
    int64_t multiplied = 0, scaled = 0;  // blocks of a panel
    for (int64_t step = 0; step < steps_ + kBehind; ++step) {
      if (step < steps_) Multiply(step, multiplied);
      if (step == steps_) Store(step * kPlanes - 1);
      if (++multiplied == blocks_) multiplied = 0;
      Unpack(step + kAhead);
      if (step < kBehind) continue;
      Scale(step - kBehind, scaled, sums);
      if (++scaled < blocks_) continue;
      scaled = 0;
      FinishPanel(panel++, sums);
    }
    Tiles::Release();
  }

 private:
  using V = typename I::V;
  using Int = typename I::Int;
  using Reg = typename V::Reg;
  static constexpr int kVectors = kPanelOutputs / I::kLanes;
  using Sums = Reg[R][kVectors];
  static constexpr bool kFine = sizeof(Row) == sizeof(FineRowBlock);
  static constexpr int kPlanes = kFine ? 2 : 1;
  static constexpr int64_t kPlaneProducts = R * kPanelOutputs;
  // Blocks between the units, and places for what lies there.
  static constexpr int64_t kAhead = 2, kBehind = 3, kPlaces = 4;

  static ESPALIER_INLINE void Clear(Sums& sums) {
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      ESPALIER_UNROLL
      for (int n = 0; n < kVectors; ++n) sums[r][n] = V::Set(0.0f);
    }
  }

  const std::byte* WeightsAt(int64_t step) const {
    return weights_ + step * bytes_;
  }
  // Unsigned, as tiles read them.
  const std::byte* CodesAt(int64_t step) const {
    return bits == 8 ? WeightsAt(step) : codes_[step % kPlaces];
  }
  int32_t* ProductsAt(int64_t step) {
    return products_[step % kPlaces];  // [kPlanes][R][kPanelOutputs]
  }

  // Codes of 4 bits: those of 8 lie as tiles read them.
  ESPALIER_INLINE void Unpack(int64_t step) {
    if (bits == 8 || step >= steps_) return;
    const std::byte* const packed = WeightsAt(step);
    std::byte* const out = codes_[step % kPlaces];
    constexpr int64_t kBytes = kBlockInputs * kPanelOutputs / 2;
    ESPALIER_UNROLL
    for (int64_t i = 0; i < kBytes; i += I::kLanes * 4) {
      const Int both = I::Load(packed + i);
      std::byte* const low =
          out + i / kCodeRowBytes * 2 * kCodeRowBytes + i % kCodeRowBytes;
      I::Store(low, I::LowHalves(both));
      I::Store(low + kCodeRowBytes, I::HighHalves(both));
    }
  }

  // The products of a block, of each plane into its own pair of tiles. A pair
  // is stored when the next one is at work: a store right behind its product
  // waits for it.
  ESPALIER_INLINE void Multiply(int64_t step, int64_t block) {
    const std::byte* const codes = CodesAt(step);
    Tiles::template Load<kBlockWeights>(codes, kCodeRowBytes);
    Tiles::template Load<kBlockWeights2>(codes + kAmxRowBytes, kCodeRowBytes);
    const std::byte* const x = static_cast<const std::byte*>(a_.x) +
                               block * static_cast<int64_t>(sizeof(Row));
    if constexpr (kFine) {
      MultiplyPlane<kProducts>(x);
      FetchAhead(step);
      if (step > 0) Store(step * kPlanes - 1);
      MultiplyPlane<kLowProducts>(x + __builtin_offsetof(FineRowBlock, low));
      Store(step * kPlanes);
    } else {
      step % 2 == 0 ? MultiplyPlane<kProducts>(x)
                    : MultiplyPlane<kLowProducts>(x);
      FetchAhead(step);
      if (step > 0) Store(step - 1);
    }
  }
  template <int pair>
  ESPALIER_INLINE void MultiplyPlane(const std::byte* x) {
    Tiles::template Load<kCodes>(x, a_.x_stride);
    Tiles::template Zero<pair>();
    Tiles::template Zero<pair + 1>();
    Tiles::template MultiplyAddUnsigned<pair, kCodes, kBlockWeights>();
    Tiles::template MultiplyAddUnsigned<pair + 1, kCodes, kBlockWeights2>();
  }
  void FetchAhead(int64_t step) const {
    const std::byte* const next = WeightsAt(step) + kFetchAhead;
    for (int64_t i = 0; i < bytes_; i += kAmxRowBytes) Fetch(next + i);
  }

  // index: of a plane's products, counted over all steps.
  ESPALIER_INLINE void Store(int64_t index) {
    int32_t* const products =
        ProductsAt(index / kPlanes) + index % kPlanes * kPlaneProducts;
    index % 2 == 0 ? StorePair<kProducts>(products)
                   : StorePair<kLowProducts>(products);
  }
  template <int pair>
  static ESPALIER_INLINE void StorePair(int32_t* products) {
    constexpr int64_t kRowBytes = kPanelOutputs * 4;
    Tiles::template Store<pair>(products, kRowBytes);
    Tiles::template Store<pair + 1>(products + kAmxColumns, kRowBytes);
  }

  ESPALIER_INLINE void Scale(int64_t step, int64_t block, Sums& sums) {
    const BlockFormat& format = a_.weights.format;
    const std::byte* const scales = WeightsAt(step) + CodeBytes(format);
    const std::byte* const x = static_cast<const std::byte*>(a_.x) +
                               block * static_cast<int64_t>(sizeof(Row));
    ESPALIER_UNROLL
    for (int n = 0; n < kVectors; ++n) {
      const int64_t lane = n * I::kLanes;
      const Reg scale = LoadScales<I>(format.wide_scales, scales, lane);
      Reg minimum;
      if constexpr (minimums) {
        minimum = LoadScales<I>(format.wide_scales, scales + ScaleBytes(format),
                                lane);
      }
      const int32_t* const products = ProductsAt(step) + lane;
      const std::byte* row_block = x;
      ESPALIER_UNROLL
      for (int r = 0; r < R; ++r, row_block += a_.x_stride) {
        const RowBlock& row = HighOf(*reinterpret_cast<const Row*>(row_block));
        const Int product = Product(products + r * kPanelOutputs, row);
        Reg& sum = sums[r][n];
        sum = I::MulAdd(I::ToFloat(product), V::Mul(scale, V::Set(row.scale)),
                        sum);
        if constexpr (minimums) {
          sum = I::MulAdd(minimum, V::Set(row.scaled_sum), sum);
        }
      }
    }
  }

  // Returns the product with the weights' true values. Stored codes without
  // minimums are too large by 2^(bits - 1).
  static ESPALIER_INLINE Int Product(const int32_t* p, const RowBlock& row) {
    Int product = I::Load(reinterpret_cast<const std::byte*>(p));
    if constexpr (kFine) {
      const int32_t* const low = p + kPlaneProducts;
      product = I::Add(I::template ShiftLeft<7>(product),
                       I::Load(reinterpret_cast<const std::byte*>(low)));
    }
    if constexpr (!minimums) {
      product = I::Add(product,
                       I::template ShiftLeft<bits - 1>(I::Set(row.minus_sum)));
    }
    return product;
  }

  ESPALIER_INLINE void FinishPanel(int64_t panel, Sums& sums) const {
    alignas(64) float rows[R][kPanelOutputs];
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      ESPALIER_UNROLL
      for (int n = 0; n < kVectors; ++n) {
        V::Store(&rows[r][n * I::kLanes], sums[r][n]);
      }
    }
    Clear(sums);
    for (int r = 0; r < R; ++r) {
      Finish<V>(a_, panel, rows[r], a_.out + r * a_.out_stride);
    }
  }

  const LinearArgs& a_;
  const int64_t blocks_;  // of a panel
  const int64_t steps_;   // blocks of all panels
  const int64_t bytes_;   // of a block
  const std::byte* const weights_;
  alignas(64) std::byte codes_[kPlaces][kSignedBlockBytes];
  alignas(64) int32_t products_[kPlaces][kPlanes * kPlaneProducts];
};

template <typename I, typename Tiles, typename Row, int bits, bool minimums,
          int R>
void AmxLinearOfFewRows(const LinearArgs& a) {
  if constexpr (R > kFewestFewRows) {
    if (a.rows < R) {
      return AmxLinearOfFewRows<I, Tiles, Row, bits, minimums, R - 1>(a);
    }
  }
  AmxFewRows<I, Tiles, Row, bits, minimums, R>(a).Run();
}

template <typename I, typename Tiles, typename Row>
void AmxLinearOfFewRows(const LinearArgs& a) {
  constexpr int R = kMaxFewRows;
  const BlockFormat& format = a.weights.format;
  const auto linear =
      format.bits == 8
          ? (format.minimums ? AmxLinearOfFewRows<I, Tiles, Row, 8, true, R>
                             : AmxLinearOfFewRows<I, Tiles, Row, 8, false, R>)
          : (format.minimums ? AmxLinearOfFewRows<I, Tiles, Row, 4, true, R>
                             : AmxLinearOfFewRows<I, Tiles, Row, 4, false, R>);
  linear(a);
}

inline bool AreFewAmxRows(int64_t rows) {
  return kFewestFewRows <= rows && rows <= kMaxFewRows;
}

// Computes what LinearOfBlocks does, to the bit. REQUIRES: FitsAmxBlocks,
// AreFewAmxRows.
template <typename I, typename Tiles>
void AmxLinearOfFewRows(const LinearArgs& a) {
  a.operand == OperandType::kFineBlocks
      ? AmxLinearOfFewRows<I, Tiles, FineRowBlock>(a)
      : AmxLinearOfFewRows<I, Tiles, RowBlock>(a);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_FEW_ROWS_AMX_INL_H_
