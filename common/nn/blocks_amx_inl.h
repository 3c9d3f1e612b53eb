// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
//
// Products of integers on AMX's tiles. Sums of a group of inputs leave the
// tiles as integers, and vectors scale and add them in the order of
// blocks_inl.h, so the bits are the same. Tiles and vectors work at the same
// time: while the tiles multiply a segment of blocks, the vectors take what
// came out of the segment before it.
#ifndef ESPALIER_COMMON_NN_BLOCKS_AMX_INL_H_
#define ESPALIER_COMMON_NN_BLOCKS_AMX_INL_H_

#include <cstdint>

#include "common/nn/amx_inl.h"
#include "common/nn/blocks_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/row_blocks_inl.h"

namespace espalier::nn {
namespace {

enum AmxBlockTile {
  kProducts,   // [rows][16] int32: first half of a panel
  kProducts2,  // second half
  kLowProducts,
  kLowProducts2,
  kCodes,  // [rows][kBlockInputs] int8
  kLowCodes,
  kBlockWeights,  // [kBlockInputs / 4][16 outputs][4] int8
  kBlockWeights2,
};

inline AmxConfig AmxBlockConfigFor(int64_t rows) {
  AmxConfig config = AmxConfigFor(rows, kBlockWeights);
  for (int i = 0; i < 2; ++i) {
    config.row_bytes[kCodes + i] = static_cast<uint16_t>(kBlockInputs);
    config.rows[kBlockWeights + i] = static_cast<uint8_t>(kBlockInputs / 4);
  }
  return config;
}

// Sizes of a panel's codes as tiles read them.
inline constexpr int64_t kCodeRowBytes = kPanelOutputs * 4;
inline constexpr int64_t kSignedBlockBytes = kBlockInputs * kPanelOutputs;

// Products of 16 rows and a panel that the tiles leave before the vectors take
// them: two sets, codes and rows have to fit into the first-level cache.
inline constexpr int64_t kAmxSegmentProducts = 4;
// Tiles of rows whose sums wait: their number decides how often blocks are
// unpacked again.
inline constexpr int64_t kWaitingTiles = 4;

// Returns true if tiles cannot read the codes where they are: these are signed.
inline bool AreUnpacked(const BlockFormat& format) {
  return format.bits == 4 || !format.minimums;
}

// Codes of some blocks as signed bytes: [blocks][8][kPanelOutputs][4].
template <typename I>
void UnpackSigned(const BlockFormat& format, const std::byte* packed,
                  int64_t blocks, std::byte* out) {
  const int64_t code_bytes = CodeBytes(format);
  for (int64_t block = 0; block < blocks; ++block) {
    if (format.bits == 8) {
      const typename I::Int middle = I::Set(static_cast<int32_t>(0x80808080));
      for (int64_t i = 0; i < code_bytes; i += I::kLanes * 4) {
        I::Store(out + i, I::AddBytes(I::Load(packed + i), middle));
      }
    } else {
      const typename I::Int middle =
          I::Set(format.minimums ? 0 : static_cast<int32_t>(0xF8F8F8F8));
      for (int64_t i = 0; i < code_bytes; i += I::kLanes * 4) {
        const typename I::Int both = I::Load(packed + i);
        std::byte* const low =
            out + i / kCodeRowBytes * 2 * kCodeRowBytes + i % kCodeRowBytes;
        I::Store(low, I::AddBytes(I::LowHalves(both), middle));
        I::Store(low + kCodeRowBytes, I::AddBytes(I::HighHalves(both), middle));
      }
    }
    packed += BlockBytes(format);
    out += kSignedBlockBytes;
  }
}

// One tile of rows times some blocks of a panel, from codes to sums.
struct AmxSegment {
  const std::byte* x = nullptr;        // the first row's first block
  const std::byte* weights = nullptr;  // packed: the scales
  const std::byte* codes = nullptr;    // signed, for the tiles
  int64_t code_stride = 0;             // bytes from block to block
  int64_t blocks = 0;                  // 0: nothing to do
  // Fetched meanwhile, unless null: next_bytes for each block.
  const std::byte* next = nullptr;
  int64_t next_bytes = 0;
  bool resume = false;          // the sums go on from what is there
  float* sums = nullptr;        // [rows][kPanelOutputs]
  int32_t* products = nullptr;  // [kProductCount] of AmxBlockProduct
  // A panel's last segment also says where its rows go.
  bool last = false;
  int64_t panel = 0;
  int64_t first_row = 0;
  int64_t done_rows = 0;  // that an earlier tile had
};

// Row: RowBlock or FineRowBlock.
template <typename I, typename Tiles, typename Row, bool minimums>
class AmxBlockProduct {
 public:
  explicit AmxBlockProduct(const LinearArgs& args)
      : a_(args), tiles_(args.rows), bytes_(BlockBytes(args.weights.format)) {}

  void Run() {
    Tiles::Configure(AmxBlockConfigFor(tiles_.size));
    for (int64_t panel = a_.panel_begin; panel < a_.panel_end; ++panel) {
      for (int64_t tile = 0; tile < tiles_.count; tile += kWaitingTiles) {
        const int64_t left = tiles_.count - tile;
        AddPanel(panel, tile, left < kWaitingTiles ? left : kWaitingTiles);
      }
    }
    Tiles::Release();
    for (int part = 0; part < kParts; ++part) ScalePart(due_, part);
  }

 private:
  using V = typename I::V;
  using Int = typename I::Int;
  using Reg = typename V::Reg;
  static constexpr bool kFine = sizeof(Row) == sizeof(FineRowBlock);
  static constexpr int kPlanes = kFine ? 2 : 1;
  static constexpr int64_t kPlaneProducts = kAmxRows * kPanelOutputs;
  static constexpr int64_t kSegmentBlocks = kAmxSegmentProducts / kPlanes;
  // [kSegmentBlocks][kPlanes][kAmxRows][kPanelOutputs]
  static constexpr int64_t kProductCount = kAmxSegmentProducts * kPlaneProducts;
  // A segment is scaled in parts: so many rows, one vector of outputs.
  static constexpr int64_t kPartRows = kAmxRows / 2;
  static constexpr int64_t kColumnParts = kPanelOutputs / I::kLanes;
  static constexpr int64_t kParts = 2 * kColumnParts;

  void AddPanel(int64_t panel, int64_t first_tile, int64_t num_tiles) {
    const BlockFormat& format = a_.weights.format;
    const std::byte* const weights =
        a_.weights.data + panel * a_.weights.panel_bytes;
    const int64_t blocks = PaddedInputs(a_.weights.inputs) / kBlockInputs;
    for (int64_t block = 0; block < blocks; block += kSegmentBlocks) {
      const int64_t left = blocks - block;
      AmxSegment segment = {
          .weights = weights + block * bytes_,
          .blocks = left < kSegmentBlocks ? left : kSegmentBlocks,
          .resume = block > 0,
          .last = left <= kSegmentBlocks,
          .panel = panel};
      if (AreUnpacked(format)) {
        UnpackSigned<I>(format, segment.weights, segment.blocks, codes_);
        segment.codes = codes_;
        segment.code_stride = kSignedBlockBytes;
      } else {
        segment.codes = segment.weights;
        segment.code_stride = bytes_;
      }
      for (int64_t i = 0; i < num_tiles; ++i) {
        const int64_t tile = first_tile + i;
        segment.first_row = tiles_.Begin(tile);
        segment.done_rows = tile * tiles_.size - segment.first_row;
        segment.x = static_cast<const std::byte*>(a_.x) +
                    segment.first_row * a_.x_stride +
                    block * static_cast<int64_t>(sizeof(Row));
        segment.next = tile == 0 ? segment.weights + kFetchAhead : nullptr;
        segment.next_bytes = bytes_;
        segment.sums = sums_[i];
        segment.products = products_[turn_];
        turn_ ^= 1;
        Multiply(segment);
        due_ = segment;
      }
    }
  }

  // Sums that are due are scaled meanwhile.
  void Multiply(const AmxSegment& s) {
    const std::byte* next = s.next;
    int32_t* products = s.products;
    int part = 0;
    for (int64_t block = 0; block < s.blocks; ++block) {
      MultiplyBlockOfTiles(s.x + block * static_cast<int64_t>(sizeof(Row)),
                           s.codes + block * s.code_stride, products);
      products += kPlanes * kPlaneProducts;
      const int64_t parts = kParts * (block + 1) / s.blocks;
      for (; part < parts; ++part) {
        if (next != nullptr) {
          const int64_t bytes = s.next_bytes * s.blocks / kParts;
          for (int64_t i = 0; i < bytes; i += 64) Fetch(next + i);
          next += bytes;
        }
        ScalePart(due_, part);
      }
    }
  }

  // One block, to products: [kPlanes][kAmxRows][kPanelOutputs].
  void MultiplyBlockOfTiles(const std::byte* x, const std::byte* codes,
                            int32_t* products) {
    Tiles::template Zero<kProducts>();
    Tiles::template Zero<kProducts2>();
    Tiles::template Load<kCodes>(x, a_.x_stride);
    Tiles::template Load<kBlockWeights>(codes, kCodeRowBytes);
    Tiles::template Load<kBlockWeights2>(codes + kAmxRowBytes, kCodeRowBytes);
    Tiles::template MultiplyAddBytes<kProducts, kCodes, kBlockWeights>();
    Tiles::template MultiplyAddBytes<kProducts2, kCodes, kBlockWeights2>();
    if constexpr (kFine) {
      Tiles::template Zero<kLowProducts>();
      Tiles::template Zero<kLowProducts2>();
      Tiles::template Load<kLowCodes>(x + __builtin_offsetof(FineRowBlock, low),
                                      a_.x_stride);
      Tiles::template MultiplyAddBytes<kLowProducts, kLowCodes,
                                       kBlockWeights>();
      Tiles::template MultiplyAddBytes<kLowProducts2, kLowCodes,
                                       kBlockWeights2>();
    }
    constexpr int64_t kRowBytes = kPanelOutputs * 4;
    Tiles::template Store<kProducts>(products, kRowBytes);
    Tiles::template Store<kProducts2>(products + kAmxColumns, kRowBytes);
    if constexpr (kFine) {
      int32_t* const low = products + kPlaneProducts;
      Tiles::template Store<kLowProducts>(low, kRowBytes);
      Tiles::template Store<kLowProducts2>(low + kAmxColumns, kRowBytes);
    }
  }

  // Parts of the same rows follow each other; the last one ends them.
  void ScalePart(const AmxSegment& s, int64_t part) {
    if (s.blocks == 0) return;
    const int64_t half = (tiles_.size + 1) / 2;
    const int64_t row = part < kColumnParts ? 0 : half;
    const int64_t rows = row == 0 ? half : tiles_.size - half;
    const int64_t column = part % kColumnParts;
    ScaleRows<kPartRows>(rows, s, row, column * I::kLanes);
    if (!s.last || column + 1 < kColumnParts) return;
    for (int64_t r = row; r < row + rows; ++r) {
      if (r < s.done_rows) continue;
      Finish<V>(a_, s.panel, s.sums + r * kPanelOutputs,
                a_.out + (s.first_row + r) * a_.out_stride);
    }
  }

  template <int R>
  void ScaleRows(int64_t rows, const AmxSegment& s, int64_t row, int64_t lane) {
    if constexpr (R > 0) {
      if (rows < R) return ScaleRows<R - 1>(rows, s, row, lane);
      Scale<R>(s, row, lane);
    }
  }

  template <int R>
  void Scale(const AmxSegment& s, int64_t first_row, int64_t lane) {
    const BlockFormat& format = a_.weights.format;
    float* const sums = s.sums + first_row * kPanelOutputs + lane;
    Reg sum[R];
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      sum[r] = s.resume ? V::Load(sums + r * kPanelOutputs) : V::Set(0.0f);
    }
    const int32_t* products = s.products + first_row * kPanelOutputs + lane;
    // Two bases for the rows: the compiler has too few registers for all.
    const std::byte* x = s.x + first_row * a_.x_stride;
    const std::byte* x4 = x + 4 * a_.x_stride;
    const std::byte* scales = s.weights + CodeBytes(format);
    const int64_t scale_bytes = ScaleBytes(format);
    const bool wide = format.wide_scales;
    for (int64_t block = 0; block < s.blocks; ++block) {
      const Reg scale = LoadScales<I>(wide, scales, lane);
      Reg minimum;
      if constexpr (minimums) {
        minimum = LoadScales<I>(wide, scales + scale_bytes, lane);
      }
      ESPALIER_UNROLL
      for (int r = 0; r < R; ++r) {
        const RowBlock& row = HighOf(*reinterpret_cast<const Row*>(
            (r < 4 ? x : x4) + r % 4 * a_.x_stride));
        sum[r] =
            I::MulAdd(I::ToFloat(LoadProduct(products + r * kPanelOutputs)),
                      V::Mul(scale, V::Set(row.scale)), sum[r]);
        if constexpr (minimums) {
          sum[r] = I::MulAdd(minimum, V::Set(row.scaled_sum), sum[r]);
        }
      }
      products += kPlanes * kPlaneProducts;
      x += sizeof(Row);
      x4 += sizeof(Row);
      scales += bytes_;
    }
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) V::Store(sums + r * kPanelOutputs, sum[r]);
  }

  static Int LoadProduct(const int32_t* p) {
    const Int product = I::Load(reinterpret_cast<const std::byte*>(p));
    if constexpr (!kFine) return product;
    const int32_t* const low = p + kPlaneProducts;
    return I::Add(I::template ShiftLeft<7>(product),
                  I::Load(reinterpret_cast<const std::byte*>(low)));
  }

  const LinearArgs& a_;
  const AmxBlocks tiles_;
  const int64_t bytes_;  // of a panel's block
  AmxSegment due_;       // multiplied, not scaled yet
  int turn_ = 0;
  alignas(64) std::byte codes_[kSegmentBlocks * kSignedBlockBytes];
  alignas(64) int32_t products_[2][kProductCount];
  alignas(64) float sums_[kWaitingTiles][kAmxRows * kPanelOutputs];
};

template <typename I, typename Tiles, typename Row>
void AmxLinearOfRowBlocks(const LinearArgs& a) {
  a.weights.format.minimums ? AmxBlockProduct<I, Tiles, Row, true>(a).Run()
                            : AmxBlockProduct<I, Tiles, Row, false>(a).Run();
}

// Returns whether a block has one scale: tiles would have to give up their sums
// twice for two.
inline bool FitsAmxBlocks(const BlockFormat& format) {
  return format.group == kBlockInputs;
}

// Computes what LinearOfBlocks does, to the bit, on tiles. REQUIRES:
// FitsAmxBlocks.
template <typename I, typename Tiles>
void AmxLinearOfBlocks(const LinearArgs& a) {
  a.operand == OperandType::kFineBlocks
      ? AmxLinearOfRowBlocks<I, Tiles, FineRowBlock>(a)
      : AmxLinearOfRowBlocks<I, Tiles, RowBlock>(a);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_BLOCKS_AMX_INL_H_
