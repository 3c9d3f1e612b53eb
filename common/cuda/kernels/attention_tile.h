// Softmax over pages of keys and values on the tensor cores, a warp for sixteen
// rows of queries. attend_prefix.h says in which order.
#ifndef ESPALIER_COMMON_CUDA_KERNELS_ATTENTION_TILE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ATTENTION_TILE_H_

#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/tensor_core.h"

namespace espalier::cuda {
namespace {

inline constexpr float kLowest = -INFINITY;

// Loads what Multiply16x8x16 reads of sixteen rows of queries, in step k.
// row[i]: that of lane / 4 + 8 i; null: zeros.
DEVICE void LoadQueries(const bf16_t* const (&row)[2], int k,
                        uint32_t (&a)[4]) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bf16_t* const from = row[i % 2];
    a[i] = from == nullptr ? 0u
                           : *reinterpret_cast<const uint32_t*>(
                                 from + 16 * k + 8 * (i / 2) + 2 * t);
  }
}

// Sixteen rows of queries, in registers.
template <int kDim>
struct Queries {
  static constexpr int kStepsAtOnce = kDim / 16;

  uint32_t a[kDim / 16][4];

  DEVICE void Load(const bf16_t* const (&row)[2]) {
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) LoadQueries(row, k, a[k]);
  }
  DEVICE void Step(int k, uint32_t (&step)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) step[i] = a[k][i];
  }
};
// The same, which stay in memory where others take the registers.
struct QueriesInMemory {
  static constexpr int kStepsAtOnce = 1;

  const bf16_t* rows[2];

  DEVICE void Load(const bf16_t* const (&row)[2]) {
    rows[0] = row[0];
    rows[1] = row[1];
  }
  DEVICE void Step(int k, uint32_t (&step)[4]) const {
    const bf16_t* const row[2] = {rows[0], rows[1]};
    LoadQueries(row, k, step);
  }
};
template <>
struct Queries<256> : QueriesInMemory {};

// The place of a row of a panel in shared memory.
struct PanelRow {
  uint32_t address;
  uint32_t swap;  // its position in the panel, modulo 8

  DEVICE uint32_t Piece(uint32_t piece) const {
    return address + ((piece ^ swap) * 16);
  }
};

// A row of a panel from a piece on.
struct PanelRowFrom {
  PanelRow row;
  uint32_t first_piece;

  DEVICE uint32_t Piece(uint32_t piece) const {
    return row.Piece(first_piece + piece);
  }
};

// A panel whose positions are in their order.
template <int kDim>
struct WholePanel {
  uint32_t panel;

  DEVICE PanelRow operator()(int i) const {
    return {panel + i * (kDim * 2), static_cast<uint32_t>(i & 7)};
  }
};

// The positions of a page that count: all before one.
struct PositionsBefore {
  static constexpr bool kMayBeNone = false;
  int end;

  DEVICE bool Has(int /*row*/, int position) const { return position < end; }
};
// The positions in the windows of a lane's two rows count; a page may have
// none.
struct PositionsOfWindows {
  static constexpr bool kMayBeNone = true;
  int begin[2];
  int end;

  DEVICE bool Has(int row, int position) const {
    return begin[row] <= position && position < end;
  }
};

// The positions up to those of a lane's two rows count, in windows if there are
// some; a page may have none.
template <bool kWindow>
struct PositionsUpToRows {
  static constexpr bool kMayBeNone = true;
  int begin[2];  // of windows
  int end[2];

  DEVICE bool Has(int row, int position) const {
    return position < end[row] && (!kWindow || begin[row] <= position);
  }
};

// The softmax of sixteen rows so far, or of the first eight of them: the
// largest score in units of log 2, the sum of weights relative to it, and the
// weighted sum of values, or of some of their columns.
template <int kDim, int kRows = 16, int kColumns = kDim>
struct Softmax {
  static constexpr int kOfLane = kRows / 8;  // rows

  float largest[kOfLane], sum[kOfLane];
  float out[kColumns / 8][2 * kOfLane];

  DEVICE void Clear() {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      largest[i] = kLowest;
      sum[i] = 0;
    }
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2 * kOfLane; ++i) out[n][i] = 0;
    }
  }

  // Goes on with a page: keys(i) and values(i) are rows of position i. Those
  // that are not `seen` count for nothing, and have to be finite. A row that
  // sees none of them keeps its bits.
  template <typename Rows16, typename Seen, typename Keys, typename Values>
  DEVICE void Add(const Rows16& queries, float scale, const Seen& seen,
                  const Keys& keys, const Values& values) {
    float weights[kPagePositions / 8][2 * kOfLane];
    Score(queries, keys, weights);
    Weigh(scale, seen, weights);
    AddValues(values, weights);
  }

 private:
  DEVICE static void AddProduct(const uint32_t (&a)[4], uint32_t b0,
                                uint32_t b1, float (&sums)[2 * kOfLane]) {
    if constexpr (kOfLane == 2) {
      Multiply16x8x16(sums, a, b0, b1);
    } else {
      float all[4] = {sums[0], sums[1], 0, 0};
      Multiply16x8x16(all, a, b0, b1);
      sums[0] = all[0];
      sums[1] = all[1];
    }
  }
  template <typename Rows16, typename Rows>
  DEVICE static void Score(const Rows16& queries, const Rows& keys,
                           float (&scores)[kPagePositions / 8][2 * kOfLane]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kPagePositions / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2 * kOfLane; ++i) scores[n][i] = 0;
    }
    PanelRow rows[kPagePositions / 16];
#pragma unroll
    for (int n = 0; n < kPagePositions / 16; ++n) {
      rows[n] = keys(16 * n + lane / 16 * 8 + lane % 8);
    }
    // Products that follow each other add to different sums.
#pragma unroll(Rows16::kStepsAtOnce)
    for (int k = 0; k < kDim / 16; ++k) {
      uint32_t a[4];
      queries.Step(k, a);
#pragma unroll
      for (int n = 0; n < kPagePositions / 16; ++n) {
        uint32_t b[4];
        LoadMatrices(rows[n].Piece(2 * k + lane / 8 % 2), b);
        AddProduct(a, b[0], b[1], scores[2 * n]);
        AddProduct(a, b[2], b[3], scores[2 * n + 1]);
      }
    }
  }

  // Scores to weights; what was summed before shrinks to the new largest.
  template <typename Seen>
  DEVICE void Weigh(float scale, const Seen& seen,
                    float (&scores)[kPagePositions / 8][2 * kOfLane]) {
    const int t = threadIdx.x % 4;
    float most[kOfLane], part[kOfLane], base[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      most[i] = largest[i];
      part[i] = 0;
    }
#pragma unroll
    for (int n = 0; n < kPagePositions / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2 * kOfLane; ++i) {
        const bool is_seen = seen.Has(i / 2, 8 * n + 2 * t + i % 2);
        scores[n][i] = is_seen ? scores[n][i] * scale : kLowest;
        most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 1));
      most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 2));
      base[i] = Seen::kMayBeNone && most[i] == kLowest ? 0 : most[i];
    }
#pragma unroll
    for (int n = 0; n < kPagePositions / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2 * kOfLane; ++i) {
        scores[n][i] = Exp2(scores[n][i] - base[i / 2]);
        part[i / 2] += scores[n][i];
      }
    }
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      part[i] += __shfl_xor_sync(~0u, part[i], 1);
      part[i] += __shfl_xor_sync(~0u, part[i], 2);
      const float shrink = Exp2(largest[i] - base[i]);
      sum[i] = fmaf(sum[i], shrink, part[i]);
      largest[i] = most[i];
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        out[n][2 * i] *= shrink;
        out[n][2 * i + 1] *= shrink;
      }
    }
  }

  template <typename Rows>
  DEVICE void AddValues(
      const Rows& values,
      const float (&weights)[kPagePositions / 8][2 * kOfLane]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < kPagePositions / 16; ++k) {
      const auto& w = weights[2 * k];
      const auto& v = weights[2 * k + 1];
      uint32_t a[4] = {PackBf16(w[0], w[1]), 0, PackBf16(v[0], v[1]), 0};
      if constexpr (kOfLane == 2) {
        a[1] = PackBf16(w[2], w[3]);
        a[3] = PackBf16(v[2], v[3]);
      }
      const auto row = values(16 * k + lane % 16);
#pragma unroll
      for (int n = 0; n < kColumns / 16; ++n) {
        uint32_t b[4];
        LoadMatricesTransposed(row.Piece(2 * n + lane / 16), b);
        AddProduct(a, b[0], b[1], out[2 * n]);
        AddProduct(a, b[2], b[3], out[2 * n + 1]);
      }
    }
  }
};

// The chunks of sixteen rows, or of the first eight of them, merged in
// ascending order. A chunk may have none of the positions that one of sixteen
// rows sees.
template <int kColumns, int kRows>
struct alignas(16) MergedChunks {
  static constexpr int kOfLane = kRows / 8;  // rows

  float largest[kOfLane], sum[kOfLane];
  float out[kColumns / 8][2 * kOfLane];

  DEVICE void Clear() {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      largest[i] = kLowest;
      sum[i] = 0;
    }
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2 * kOfLane; ++i) out[n][i] = 0;
    }
  }
  template <typename Chunk>
  DEVICE void Add(const Chunk& chunk) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const float most = fmaxf(largest[i], chunk.largest[i]);
      const float base = kRows == 16 && most == kLowest ? 0 : most;
      const float old_scale = Exp2(largest[i] - base);
      const float new_scale = Exp2(chunk.largest[i] - base);
      largest[i] = most;
      sum[i] = fmaf(sum[i], old_scale, chunk.sum[i] * new_scale);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int j = 2 * i; j < 2 * i + 2; ++j) {
          out[n][j] = fmaf(out[n][j], old_scale, chunk.out[n][j] * new_scale);
        }
      }
    }
  }
};

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ATTENTION_TILE_H_
