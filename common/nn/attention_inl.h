// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_ATTENTION_INL_H_
#define ESPALIER_COMMON_NN_ATTENTION_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/math_inl.h"

namespace espalier::nn {
namespace {

// Pages of float32: keys [head_dim][kPageTokens], values
// [kPageTokens][head_dim]. These are small panels: the products with them run
// on the tiles of Linear.
inline void WriteKv(const KvPanels& page, int64_t slot, const float* key,
                    const float* value) {
  for (int64_t i = 0; i < page.head_dim; ++i) {
    page.keys[i * kPageTokens + slot] = key[i];
    page.values[slot * page.head_dim + i] = value[i];
  }
}

inline void CopyKv(const KvPanels& from, int64_t from_slot, const KvPanels& to,
                   int64_t to_slot) {
  for (int64_t i = 0; i < from.head_dim; ++i) {
    to.keys[i * kPageTokens + to_slot] = from.keys[i * kPageTokens + from_slot];
    to.values[to_slot * from.head_dim + i] =
        from.values[from_slot * from.head_dim + i];
  }
}

struct AttendState {
  float* scores = nullptr;  // [num_queries, stride] by slot, then by position
  int64_t stride = 0;
  float* sums = nullptr;    // [num_queries, head_dim]
  float* totals = nullptr;  // [num_queries] of the weights
};

// scores = q K^T for all slots in use. Rows that a query does not see get a
// score as well; nobody reads it.
template <typename V>
void ScorePage(const AttendArgs& a, const AttendState& state, int64_t page,
               int64_t begin, int64_t rows) {
  const float* const keys = a.pages[page] + a.key_offset;
  for (int64_t slot = 0; slot < kPageTokens; slot += 2 * V::kLanes) {
    TileFor<FloatTile<V, 2>, V::kTileRows>(rows)(
        {.x = a.queries + begin * a.head_dim,
         .x_stride = a.head_dim,
         .weights = keys + slot,
         .weight_stride = kPageTokens,
         .next = keys,
         .inputs = a.head_dim,
         .out = state.scores + begin * state.stride + page * kPageTokens + slot,
         .out_stride = state.stride});
  }
}

// sums += p V for the page's positions of the prefix.
template <typename V>
void MixPage(const AttendArgs& a, const AttendState& state, int64_t page,
             AttendRange dims, int64_t begin, int64_t rows) {
  const int64_t left = a.prefix - page * kPageTokens;
  const float* const values = a.pages[page] + a.value_offset;
  TileArgs tile = {
      .x = state.scores + begin * state.stride + page * kPageTokens,
      .x_stride = state.stride,
      .weight_stride = a.head_dim,
      .next = values,
      .inputs = left < kPageTokens ? left : kPageTokens,
      .resume = true,
      .out_stride = a.head_dim};
  float* sums = state.sums + begin * a.head_dim;
  for (int64_t dim = dims.begin; dim < dims.end;) {
    const bool two = dim + 2 * V::kLanes <= dims.end;
    tile.weights = values + dim;
    tile.out = sums + dim;
    const Tile product = two ? TileFor<FloatTile<V, 2>, V::kTileRows>(rows)
                             : TileFor<FloatTile<V, 1>, V::kTileRows>(rows);
    product(tile);
    dim += (two ? 2 : 1) * V::kLanes;
  }
}

template <typename V>
float Largest(const float* x, int64_t size) {
  float max = x[0];
  int64_t i = 0;
  if (size >= V::kLanes) {
    typename V::Reg lanes = V::Load(x);
    for (i = V::kLanes; i + V::kLanes <= size; i += V::kLanes) {
      lanes = V::Max(lanes, V::Load(x + i));
    }
    max = V::Largest(lanes);
  }
  for (; i < size; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

// Scores by slot -> by position. Returns how many positions the query sees.
inline int64_t ByPosition(const AttendArgs& a, const AttendQuery& query,
                          float* scores) {
  // An ancestor's row is at least its depth, so nothing is overwritten before
  // it is read.
  float* own = scores + a.prefix;
  for (int64_t i = 0; i < query.num_ancestors; ++i) {
    own[i] = own[query.ancestors[i]];
  }
  return a.prefix + query.num_ancestors;
}

// The vectors of a page's positions.
template <typename V>
using PageOf = typename V::Reg[kPageTokens / V::kLanes];

// Scores of one query, by position and padded to whole pages -> weights, not
// yet divided by the returned sum, and zero before `first` and after `size`:
// store(first position of a page, its weights). The order of the sum follows
// from the positions alone. softcap: see AttendArgs.
template <typename V, typename Store>
float Softmax(int64_t first, int64_t size, float softcap, float* scores,
              Store store) {
  using Reg = typename V::Reg;
  constexpr float kLog2E = 1.44269504088896341f;
  const int64_t start = first / kPageTokens * kPageTokens;
  for (int64_t begin = 0; begin < start; begin += kPageTokens) {
    PageOf<V> none;
    for (Reg& w : none) w = V::Set(0.0f);
    store(begin, none);
  }
  // Scores before the window must not be the largest.
  for (int64_t i = start; i < first; ++i) scores[i] = scores[first];
  if (softcap > 0) {
    const int64_t pages = (size - start + kPageTokens - 1) / kPageTokens;
    Softcap<V>(softcap, pages * kPageTokens, scores + start);
  }
  const Reg scale = V::Set(kLog2E);
  // Rounding does the same to it as to all weights.
  const Reg shift = V::Set(-kLog2E * Largest<V>(scores + start, size - start));
  Reg sum = V::Set(0.0f);
  for (int64_t begin = start; begin < size; begin += kPageTokens) {
    PageOf<V> weights;
    const float* next = scores + begin;
    for (Reg& w : weights) {
      w = Exp2<V>(V::MulAdd(V::Load(next), scale, shift));
      next += V::kLanes;
    }
    if (size - begin < kPageTokens) {
      int64_t left = size - begin;
      for (Reg& w : weights) {
        w = V::KeepFirst(w, left);
        left -= V::kLanes;
      }
    }
    if (begin < first) {
      int64_t left = first - begin;
      for (Reg& w : weights) {
        w = V::MulAdd(V::Set(-1.0f), V::KeepFirst(w, left), w);
        left -= V::kLanes;
      }
    }
    for (const Reg& w : weights) sum = V::Add(sum, w);
    store(begin, weights);
  }
  return V::Total(sum);
}

// After the prefix: the query's ancestors, one after another, on the same
// chain that MixPage began.
template <typename V>
void MixAncestors(const AttendArgs& a, const AttendQuery& query,
                  AttendRange dims, const float* weights, float* sums) {
  for (int64_t dim = dims.begin; dim < dims.end; dim += V::kLanes) {
    typename V::Reg sum = V::Load(sums + dim);
    for (int64_t i = 0; i < query.num_ancestors; ++i) {
      const int64_t slot = a.prefix + query.ancestors[i];
      const float* value = a.pages[slot / kPageTokens] + a.value_offset +
                           slot % kPageTokens * a.head_dim;
      sum = V::MulAdd(V::Set(weights[i]), V::Load(value + dim), sum);
    }
    V::Store(sums + dim, sum);
  }
}

// The results of some dimensions.
inline void Divide(const AttendQuery& query, AttendRange dims, float total,
                   const float* sums) {
  const float scale = 1.0f / total;
  for (int64_t i = dims.begin; i < dims.end; ++i) {
    query.out[i] = sums[i] * scale;
  }
}

// product(first query, queries), as many as a tile takes.
template <typename V, typename Product>
void ForTiles(int64_t begin, int64_t end, Product product) {
  const int64_t size = end - begin;
  const int64_t tiles = (size + V::kTileRows - 1) / V::kTileRows;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t from = begin + size * tile / tiles;
    product(from, begin + size * (tile + 1) / tiles - from);
  }
}

// Positions of the prefix, ancestors and the division, for some dimensions.
template <typename V>
void MixValues(const AttendArgs& a, const AttendState& state,
               AttendRange dims) {
  if (dims.begin == dims.end) return;
  for (int64_t q = 0; q < a.num_queries; ++q) {
    float* const sums = state.sums + q * a.head_dim;
    for (int64_t i = dims.begin; i < dims.end; ++i) sums[i] = 0;
  }
  for (int64_t page = 0; page * kPageTokens < a.prefix; ++page) {
    ForTiles<V>(0, a.num_queries, [&](int64_t q, int64_t n) {
      MixPage<V>(a, state, page, dims, q, n);
    });
  }
  for (int64_t q = 0; q < a.num_queries; ++q) {
    float* const sums = state.sums + q * a.head_dim;
    MixAncestors<V>(a, a.query[q], dims,
                    state.scores + q * state.stride + a.prefix, sums);
    Divide(a.query[q], dims, state.totals[q], sums);
  }
}

template <typename V>
void Attend(const AttendArgs& a) {
  const AttendWork work = AttendWorkOf(a);
  AttendState state = {.scores = a.scratch, .stride = AttendScoreStride(a)};
  state.sums = a.scratch + a.num_queries * state.stride;
  state.totals = state.sums + a.num_queries * a.head_dim;
  for (int64_t page = work.pages.begin; page < work.pages.end; ++page) {
    ForTiles<V>(0, a.num_queries, [&](int64_t q, int64_t n) {
      ScorePage<V>(a, state, page, q, n);
    });
  }
  for (int64_t q = work.weights.begin; q < work.weights.end; ++q) {
    const AttendQuery& query = a.query[q];
    float* const scores = state.scores + q * state.stride;
    state.totals[q] =
        Softmax<V>(query.first, ByPosition(a, query, scores), a.softcap, scores,
                   [&](int64_t begin, const PageOf<V>& weights) {
                     for (int64_t i = 0; i < kPageTokens; i += V::kLanes) {
                       V::Store(scores + begin + i, weights[i / V::kLanes]);
                     }
                   });
  }
  MixValues<V>(a, state, work.dims);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ATTENTION_INL_H_
