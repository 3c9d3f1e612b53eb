// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_LINEAR_INL_H_
#define ESPALIER_COMMON_NN_LINEAR_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"
#include "common/nn/math_inl.h"

namespace espalier::nn {

// Rows of a register tile: with two vectors of outputs they fill the 16
// registers of AVX2 (12 sums, 2 weights, 1 activation).
inline constexpr int64_t kTileRows = 6;

// out[r][...] = chain of x[r][k] * w[k][...] over k, for R rows and N vectors
// of outputs. `weights` points at the first output's element of k = 0.
struct TileArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const void* weights = nullptr;
  int64_t weight_stride = 0;  // 4-byte units from k (or pair) to the next
  int64_t prefetch = 0;       // bytes ahead
  int64_t inputs = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};

#define ESPALIER_UNROLL _Pragma("GCC unroll 8")

// The cache lines of one step of a tile, in the panel to come.
template <typename V, int N>
void Prefetch(const void* weights, int64_t bytes) {
  const char* line = static_cast<const char*>(weights) + bytes;
  __builtin_prefetch(line, /*rw=*/0, /*locality=*/3);
  if constexpr (N * V::kLanes > 16) __builtin_prefetch(line + 64, 0, 3);
}

template <typename V, int R, int N>
struct Sums {
  typename V::Reg sum[R][N];

  void Clear() {
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) sum[r][n] = V::Set(0.0f);
    }
  }
  void Load(const float* out, int64_t stride) {
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[r][n] = V::Load(out + r * stride + n * V::kLanes);
      }
    }
  }
  void Store(float* out, int64_t stride) const {
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) {
        V::Store(out + r * stride + n * V::kLanes, sum[r][n]);
      }
    }
  }
  // x: element k of the first row.
  void MulAdd(const float* x, int64_t stride, const typename V::Reg (&w)[N]) {
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename V::Reg a = V::Set(x[r * stride]);
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) sum[r][n] = V::MulAdd(a, w[n], sum[r][n]);
    }
  }
};

// A 32-bit lane of a bf16 panel holds the weights of an even and the next odd
// k; each becomes a float32 by a shift or a mask.
template <typename V, int R, int N>
void Bf16Tile(const TileArgs& t) {
  Sums<V, R, N> sums;
  sums.Clear();
  const uint32_t* w = static_cast<const uint32_t*>(t.weights);
  const float* x = t.x;
  typename V::Reg wide[N];
  auto even = [&] {
    ESPALIER_UNROLL
    for (int n = 0; n < N; ++n) wide[n] = V::LowBf16(w + n * V::kLanes);
    sums.MulAdd(x, t.x_stride, wide);
  };
  for (int64_t pair = 0; pair < t.inputs / 2; ++pair) {
    Prefetch<V, N>(w, t.prefetch);
    even();
    ESPALIER_UNROLL
    for (int n = 0; n < N; ++n) wide[n] = V::HighBf16(w + n * V::kLanes);
    sums.MulAdd(x + 1, t.x_stride, wide);
    w += t.weight_stride;
    x += 2;
  }
  if (t.inputs % 2 != 0) even();
  sums.Store(t.out, t.out_stride);
}

// Resume: the chain goes on from what is in `out`.
template <typename V, int R, int N, bool Resume>
void FloatTile(const TileArgs& t) {
  Sums<V, R, N> sums;
  if constexpr (Resume) {
    sums.Load(t.out, t.out_stride);
  } else {
    sums.Clear();
  }
  const float* w = static_cast<const float*>(t.weights);
  typename V::Reg wide[N];
  for (int64_t k = 0; k < t.inputs; ++k) {
    Prefetch<V, N>(w, t.prefetch);
    ESPALIER_UNROLL
    for (int n = 0; n < N; ++n) wide[n] = V::Load(w + n * V::kLanes);
    sums.MulAdd(t.x + k, t.x_stride, wide);
    w += t.weight_stride;
  }
  sums.Store(t.out, t.out_stride);
}

using Tile = void (*)(const TileArgs&);

// By rows - 1.
template <typename V, int N>
inline constexpr Tile kBf16Tiles[kTileRows] = {
    Bf16Tile<V, 1, N>, Bf16Tile<V, 2, N>, Bf16Tile<V, 3, N>,
    Bf16Tile<V, 4, N>, Bf16Tile<V, 5, N>, Bf16Tile<V, 6, N>};
template <typename V, int N, bool Resume>
inline constexpr Tile kFloatTiles[kTileRows] = {
    FloatTile<V, 1, N, Resume>, FloatTile<V, 2, N, Resume>,
    FloatTile<V, 3, N, Resume>, FloatTile<V, 4, N, Resume>,
    FloatTile<V, 5, N, Resume>, FloatTile<V, 6, N, Resume>};

// Vectors of outputs in a tile: few rows leave registers for more of them,
// which hides the latency of the chains.
template <typename V>
int64_t TileVectors(int64_t rows) {
  return rows <= 2 && kPanelOutputs >= 4 * V::kLanes ? 4 : 2;
}

template <typename V>
Tile LinearTile(WeightType type, int64_t rows) {
  const bool wide = TileVectors<V>(rows) == 4;
  if (type == WeightType::kBf16) {
    return wide ? kBf16Tiles<V, 4>[rows - 1] : kBf16Tiles<V, 2>[rows - 1];
  }
  return wide ? kFloatTiles<V, 4, false>[rows - 1]
              : kFloatTiles<V, 2, false>[rows - 1];
}

// `tile`: the sums of one row and panel; scratch afterwards.
template <typename V>
void Finish(const LinearArgs& a, int64_t panel, float* tile, float* out_row) {
  if (a.bias != nullptr) {
    const float* bias = a.bias + panel * kPanelOutputs;
    for (int64_t i = 0; i < kPanelOutputs; ++i) tile[i] += bias[i];
  }
  const int64_t width = a.gated ? kGatedOutputs : kPanelOutputs;
  Activate<V>(a.activation, width, tile);
  if (a.gated) {
    for (int64_t i = 0; i < width; ++i) tile[i] *= tile[width + i];
  }
  float* out = out_row + panel * width;
  const int64_t left = a.out_columns - panel * width;
  const int64_t columns = left < width ? left : width;
  if (a.accumulate) {
    for (int64_t i = 0; i < columns; ++i) out[i] += tile[i];
  } else {
    for (int64_t i = 0; i < columns; ++i) out[i] = tile[i];
  }
}

template <typename V>
void Linear(const LinearArgs& a) {
  alignas(64) float sums[kTileRows * kPanelOutputs];
  const int64_t blocks = (a.rows + kTileRows - 1) / kTileRows;
  for (int64_t panel = a.panel_begin; panel < a.panel_end; ++panel) {
    const std::byte* weights = a.weights.data + panel * a.weights.panel_bytes;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = a.rows * block / blocks;
      const int64_t rows = a.rows * (block + 1) / blocks - begin;
      const Tile tile = LinearTile<V>(a.weights.type, rows);
      const int64_t step = TileVectors<V>(rows) * V::kLanes;
      for (int64_t column = 0; column < kPanelOutputs; column += step) {
        // The first block fetches the next panel, which lies behind this one.
        tile({.x = a.x + begin * a.x_stride,
              .x_stride = a.x_stride,
              .weights = weights + column * 4,
              .weight_stride = kPanelOutputs,
              .prefetch = block == 0 ? a.weights.panel_bytes : 0,
              .inputs = a.weights.inputs,
              .out = sums + column,
              .out_stride = kPanelOutputs});
      }
      for (int64_t r = 0; r < rows; ++r) {
        Finish<V>(a, panel, sums + r * kPanelOutputs,
                  a.out + (begin + r) * a.out_stride);
      }
    }
  }
}

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_LINEAR_INL_H_
