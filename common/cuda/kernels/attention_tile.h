// Softmax over pages of keys and values on the tensor cores, a warp for sixteen
// rows of queries. attend.h says in which order.
#ifndef ESPALIER_COMMON_CUDA_KERNELS_ATTENTION_TILE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ATTENTION_TILE_H_

#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"
#include "common/cuda/tensor_core.h"

namespace espalier::cuda {
namespace {

inline constexpr float kLowest = -INFINITY;

// Sixteen rows of queries, as Multiply16x8x16 reads them.
template <int kDim>
struct Queries {
  uint32_t a[kDim / 16][4];

  // row[i]: that of lane / 4 + 8 i; null: zeros.
  DEVICE void Load(const bf16_t* const (&row)[2]) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bf16_t* const from = row[i % 2];
        a[k][i] = from == nullptr ? 0u
                                  : *reinterpret_cast<const uint32_t*>(
                                        from + 16 * k + 8 * (i / 2) + 2 * t);
      }
    }
  }
};

// The place of a row of a panel in shared memory.
struct PanelRow {
  uint32_t address;
  uint32_t swap;  // its position in the panel, modulo 8

  DEVICE uint32_t Piece(uint32_t piece) const {
    return address + ((piece ^ swap) * 16);
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
// Bounds of the windows of a lane's two rows; a page may have none of them.
struct PositionsOfWindows {
  static constexpr bool kMayBeNone = true;
  int begin[2];
  int end;

  DEVICE bool Has(int row, int position) const {
    return begin[row] <= position && position < end;
  }
};

// The softmax of sixteen rows so far: the largest score in units of log 2, the
// sum of weights relative to it, and the weighted sum of values.
template <int kDim>
struct Softmax {
  float largest[2], sum[2];
  float out[kDim / 8][4];

  DEVICE void Clear() {
    largest[0] = largest[1] = kLowest;
    sum[0] = sum[1] = 0;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      out[n][0] = out[n][1] = out[n][2] = out[n][3] = 0;
    }
  }

  // Goes on with a page: keys(i) and values(i) are rows of position i. Those
  // that are not `seen` count for nothing, and have to be finite. A row that
  // sees none of them keeps its bits.
  template <typename Seen, typename Rows>
  DEVICE void Add(const Queries<kDim>& queries, float scale, const Seen& seen,
                  const Rows& keys, const Rows& values) {
    float weights[kPagePositions / 8][4];
    Score(queries, keys, weights);
    Weigh(scale, seen, weights);
    AddValues(values, weights);
  }

 private:
  template <typename Rows>
  DEVICE static void Score(const Queries<kDim>& queries, const Rows& keys,
                           float (&scores)[kPagePositions / 8][4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kPagePositions / 8; ++n) {
      scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
    }
    PanelRow rows[kPagePositions / 16];
#pragma unroll
    for (int n = 0; n < kPagePositions / 16; ++n) {
      rows[n] = keys(16 * n + lane / 16 * 8 + lane % 8);
    }
    // Products that follow each other add to different sums.
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
      for (int n = 0; n < kPagePositions / 16; ++n) {
        uint32_t b[4];
        LoadMatrices(rows[n].Piece(2 * k + lane / 8 % 2), b);
        Multiply16x8x16(scores[2 * n], queries.a[k], b[0], b[1]);
        Multiply16x8x16(scores[2 * n + 1], queries.a[k], b[2], b[3]);
      }
    }
  }

  // Scores to weights; what was summed before shrinks to the new largest.
  template <typename Seen>
  DEVICE void Weigh(float scale, const Seen& seen,
                    float (&scores)[kPagePositions / 8][4]) {
    const int t = threadIdx.x % 4;
    float most[2] = {largest[0], largest[1]}, part[2] = {0, 0}, base[2];
#pragma unroll
    for (int n = 0; n < kPagePositions / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool is_seen = seen.Has(i / 2, 8 * n + 2 * t + i % 2);
        scores[n][i] = is_seen ? scores[n][i] * scale : kLowest;
        most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 1));
      most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 2));
      base[i] = Seen::kMayBeNone && most[i] == kLowest ? 0 : most[i];
    }
#pragma unroll
    for (int n = 0; n < kPagePositions / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = Exp2(scores[n][i] - base[i / 2]);
        part[i / 2] += scores[n][i];
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      part[i] += __shfl_xor_sync(~0u, part[i], 1);
      part[i] += __shfl_xor_sync(~0u, part[i], 2);
      const float shrink = Exp2(largest[i] - base[i]);
      sum[i] = fmaf(sum[i], shrink, part[i]);
      largest[i] = most[i];
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        out[n][2 * i] *= shrink;
        out[n][2 * i + 1] *= shrink;
      }
    }
  }

  template <typename Rows>
  DEVICE void AddValues(const Rows& values,
                        const float (&weights)[kPagePositions / 8][4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < kPagePositions / 16; ++k) {
      const float(&w)[4] = weights[2 * k], (&v)[4] = weights[2 * k + 1];
      const uint32_t a[4] = {PackBf16(w[0], w[1]), PackBf16(w[2], w[3]),
                             PackBf16(v[0], v[1]), PackBf16(v[2], v[3])};
      const PanelRow row = values(16 * k + lane % 16);
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        uint32_t b[4];
        LoadMatricesTransposed(row.Piece(2 * n + lane / 16), b);
        Multiply16x8x16(out[2 * n], a, b[0], b[1]);
        Multiply16x8x16(out[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
};

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ATTENTION_TILE_H_
