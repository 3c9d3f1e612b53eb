// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_LINEAR_INL_H_
#define ESPALIER_COMMON_NN_LINEAR_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"
#include "common/nn/math_inl.h"

namespace espalier::nn {
namespace {

// V::kTileRows: rows of a register tile. With two vectors of outputs for each
// they leave registers for two weights and one activation.

// out[r][...] = chain of x[r][k] * w[k][...] over k, for R rows and N vectors
// of outputs. `weights` points at the first output's element of k = 0.
struct TileArgs {
  const void* x = nullptr;  // first row's operand
  int64_t x_stride = 0;     // 4-byte units from row to row
  const void* weights = nullptr;
  int64_t weight_stride = 0;  // 4-byte units from k (or pair) to the next
  // Points to what comes after these weights, which is fetched meanwhile, as
  // many bytes as the tile reads.
  const void* next = nullptr;
  int64_t inputs = 0;
  bool resume = false;  // the chain goes on from what is in `out`
  float* out = nullptr;
  int64_t out_stride = 0;
};

#define ESPALIER_UNROLL _Pragma("GCC unroll 16")

// How far ahead of the multiplication weights are fetched. Panels follow each
// other, so the end of one fetches the beginning of the next.
inline constexpr int64_t kFetchAhead = 8192;

// Into the second-level cache: the first has too few buffers for what is under
// way from memory.
inline void Fetch(const void* line) {
  __builtin_prefetch(line, /*rw=*/0, /*locality=*/2);
}

// As many bytes as one step of a tile reads.
template <typename V, int N>
void FetchStep(const void*& next) {
  const std::byte* const line = static_cast<const std::byte*>(next);
  Fetch(line);
  if constexpr (N * V::kLanes > 16) Fetch(line + 64);
  next = line + N * V::kLanes * 4;
}

template <typename V, int R, int N>
struct Sums {
  typename V::Reg sum[R][N];

  explicit Sums(const TileArgs& t) {
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[r][n] = t.resume ? V::Load(t.out + r * t.out_stride + n * V::kLanes)
                             : V::Set(0.0f);
      }
    }
  }
  void Store(const TileArgs& t) const {
    ESPALIER_UNROLL
    for (int r = 0; r < R; ++r) {
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) {
        V::Store(t.out + r * t.out_stride + n * V::kLanes, sum[r][n]);
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
template <typename V, int N>
struct Bf16Tile {
  template <int R>
  static void Run(const TileArgs& t) {
    Sums<V, R, N> sums(t);
    const uint32_t* w = static_cast<const uint32_t*>(t.weights);
    const float* x = static_cast<const float*>(t.x);
    const void* next = t.next;
    typename V::Reg wide[N];
    auto even = [&] {
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) wide[n] = V::LowBf16(w + n * V::kLanes);
      sums.MulAdd(x, t.x_stride, wide);
    };
    for (int64_t pair = 0; pair < t.inputs / 2; ++pair) {
      FetchStep<V, N>(next);
      even();
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) wide[n] = V::HighBf16(w + n * V::kLanes);
      sums.MulAdd(x + 1, t.x_stride, wide);
      w += t.weight_stride;
      x += 2;
    }
    if (t.inputs % 2 != 0) even();
    sums.Store(t);
  }
};

template <typename V, int N>
struct FloatTile {
  template <int R>
  static void Run(const TileArgs& t) {
    Sums<V, R, N> sums(t);
    const float* w = static_cast<const float*>(t.weights);
    const float* x = static_cast<const float*>(t.x);
    const void* next = t.next;
    typename V::Reg wide[N];
    for (int64_t k = 0; k < t.inputs; ++k) {
      FetchStep<V, N>(next);
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) wide[n] = V::Load(w + n * V::kLanes);
      sums.MulAdd(x + k, t.x_stride, wide);
      w += t.weight_stride;
    }
    sums.Store(t);
  }
};

using Tile = void (*)(const TileArgs&);

// The tile of a kind for 1 <= rows <= R.
template <typename Kind, int R>
Tile TileFor(int64_t rows) {
  if constexpr (R > 1) {
    if (rows < R) return TileFor<Kind, R - 1>(rows);
  }
  return Kind::template Run<R>;
}

// sum += x.
template <typename V>
void Add(int64_t size, const float* x, float* sum) {
  for (int64_t i = 0; i < size; i += V::kLanes) {
    V::Store(sum + i, V::Add(V::Load(sum + i), V::Load(x + i)));
  }
}

// y *= x.
template <typename V>
void Scale(int64_t size, const float* x, float* y) {
  for (int64_t i = 0; i < size; i += V::kLanes) {
    V::Store(y + i, V::Mul(V::Load(y + i), V::Load(x + i)));
  }
}

// `tile`: the sums of one row and panel; scratch afterwards.
template <typename V>
void Finish(const LinearArgs& a, int64_t panel, float* tile, float* out_row) {
  if (a.bias != nullptr) {
    Add<V>(kPanelOutputs, a.bias + panel * kPanelOutputs, tile);
  }
  const int64_t width = a.gated ? kGatedOutputs : kPanelOutputs;
  Activate<V>(a.activation, width, tile);
  if (a.gated) Scale<V>(width, tile + width, tile);
  if (a.softcap > 0) Softcap<V>(a.softcap, width, tile);
  float* out = out_row + panel * width;
  const int64_t columns = a.out_columns - panel * width;
  if (columns < width) {
    for (int64_t i = 0; i < columns; ++i) {
      out[i] = a.accumulate ? out[i] + tile[i] : tile[i];
    }
  } else if (a.accumulate) {
    Add<V>(width, tile, out);
  } else {
    for (int64_t i = 0; i < width; i += V::kLanes) {
      V::Store(out + i, V::Load(tile + i));
    }
  }
}

// A tile for some rows, and the outputs of a panel that it covers.
struct TileChoice {
  Tile tile = nullptr;
  int64_t columns = 0;
};

template <typename V, template <typename, int> typename Kind>
TileChoice ChooseTile(int64_t rows) {
  // Few rows leave registers for more outputs, which hides the latency of the
  // chains.
  constexpr int kFewRows = 2;
  if constexpr (kPanelOutputs >= 4 * V::kLanes) {
    if (rows <= kFewRows) {
      return {TileFor<Kind<V, 4>, kFewRows>(rows), 4 * V::kLanes};
    }
  }
  return {TileFor<Kind<V, 2>, V::kTileRows>(rows), 2 * V::kLanes};
}

// The sums of some rows and one panel. Where tiles cover parts of a panel that
// is not in the cache (`fetch`), they take turns in segments of the inputs, so
// that memory is read in its order; each segment fetches the next one.
inline void PanelSums(const LinearArgs& a, const TileChoice& choice,
                      const std::byte* x, const std::byte* panel, bool fetch,
                      float* sums) {
  const int64_t input_bytes = a.weights.type == WeightType::kFloat32
                                  ? kPanelOutputs * 4
                                  : kPanelOutputs * 2;
  const bool in_parts = fetch && choice.columns < kPanelOutputs;
  const int64_t segment =
      in_parts ? kFetchAhead / input_bytes : a.weights.inputs;
  for (int64_t k = 0; k < a.weights.inputs; k += segment) {
    const std::byte* const weights = panel + k * input_bytes;
    const int64_t left = a.weights.inputs - k;
    const int64_t inputs = left < segment ? left : segment;
    const std::byte* next = weights + (fetch ? kFetchAhead : 0);
    for (int64_t column = 0; column < kPanelOutputs; column += choice.columns) {
      choice.tile({.x = x + k * 4,
                   .x_stride = a.x_stride / 4,
                   .weights = weights + column * 4,
                   .weight_stride = kPanelOutputs,
                   .next = next,
                   .inputs = inputs,
                   .resume = k > 0,
                   .out = sums + column,
                   .out_stride = kPanelOutputs});
      next += inputs * input_bytes * choice.columns / kPanelOutputs;
    }
  }
}

template <typename V>
void LinearByTiles(const LinearArgs& a, TileChoice (*choose)(int64_t rows)) {
  alignas(64) float sums[V::kTileRows * kPanelOutputs];
  const int64_t blocks = (a.rows + V::kTileRows - 1) / V::kTileRows;
  for (int64_t panel = a.panel_begin; panel < a.panel_end; ++panel) {
    const std::byte* const weights =
        a.weights.data + panel * a.weights.panel_bytes;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = a.rows * block / blocks;
      const int64_t rows = a.rows * (block + 1) / blocks - begin;
      PanelSums(a, choose(rows),
                static_cast<const std::byte*>(a.x) + begin * a.x_stride,
                weights, /*fetch=*/block == 0, sums);
      for (int64_t r = 0; r < rows; ++r) {
        Finish<V>(a, panel, sums + r * kPanelOutputs,
                  a.out + (begin + r) * a.out_stride);
      }
    }
  }
}

// Multiplies float32 operands.
template <typename V>
void Linear(const LinearArgs& a) {
  LinearByTiles<V>(a, a.weights.type == WeightType::kFloat32
                          ? ChooseTile<V, FloatTile>
                          : ChooseTile<V, Bf16Tile>);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_LINEAR_INL_H_
