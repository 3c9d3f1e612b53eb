// Part of a backend: for kernels_<backend>.cc and the test of the software
// model only. See math_inl.h.
//
// Attention on pages of bf16: keys [head_dim / 2][kPageTokens][2], values
// [kPageTokens / 2][head_dim][2]. These are small panels of kBf16. Values are
// multiplied in pairs of positions, an even one and the next: where the prefix
// ends, pairs are collected from a row's ancestors, so that the bits of a
// tree's path are those of sequential decoding.
#ifndef ESPALIER_COMMON_NN_ATTENTION_BF16_INL_H_
#define ESPALIER_COMMON_NN_ATTENTION_BF16_INL_H_

#include <cstdint>

#include "common/nn/attention_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"

namespace espalier::nn {
namespace {

// bf16 and pairs of them, in memory that is declared as float.
using KvHalf = uint16_t __attribute__((may_alias));
using KvPair = uint32_t __attribute__((may_alias));

// To the nearest, ties to even; a NaN stays one.
inline void RoundToBf16(const float* x, int64_t size, uint16_t* out) {
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]);
    const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
    const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    out[i] = static_cast<uint16_t>((nan ? bits | 0x400000 : rounded) >> 16);
  }
}

inline void WriteBf16Kv(const KvPanels& page, int64_t slot, const float* key,
                        const float* value) {
  constexpr int64_t kChunk = 32;
  uint16_t rounded[kChunk];
  KvHalf* const keys = reinterpret_cast<KvHalf*>(page.keys) + slot * 2;
  KvHalf* const values = reinterpret_cast<KvHalf*>(page.values) +
                         slot / 2 * page.head_dim * 2 + slot % 2;
  for (int64_t begin = 0; begin < page.head_dim; begin += kChunk) {
    const int64_t left = page.head_dim - begin;
    const int64_t size = left < kChunk ? left : kChunk;
    RoundToBf16(key + begin, size, rounded);
    for (int64_t i = 0; i < size; ++i) {
      keys[(begin + i) / 2 * kPageTokens * 2 + i % 2] = rounded[i];
    }
    RoundToBf16(value + begin, size, rounded);
    for (int64_t i = 0; i < size; ++i) values[(begin + i) * 2] = rounded[i];
  }
}

inline void CopyBf16Kv(const KvPanels& from, int64_t from_slot,
                       const KvPanels& to, int64_t to_slot) {
  const int64_t dims = from.head_dim;
  const auto* from_keys = reinterpret_cast<const KvPair*>(from.keys);
  auto* to_keys = reinterpret_cast<KvPair*>(to.keys);
  for (int64_t i = 0; i < dims / 2; ++i) {
    to_keys[i * kPageTokens + to_slot] = from_keys[i * kPageTokens + from_slot];
  }
  const auto* from_values = reinterpret_cast<const KvHalf*>(from.values);
  auto* to_values = reinterpret_cast<KvHalf*>(to.values);
  for (int64_t i = 0; i < dims; ++i) {
    to_values[(to_slot / 2 * dims + i) * 2 + to_slot % 2] =
        from_values[(from_slot / 2 * dims + i) * 2 + from_slot % 2];
  }
}

// Queries and weights as they are: bf16 is widened.
template <typename V>
struct FloatRows {
  static constexpr int64_t kPerFloat = 1;

  template <int N>
  static Tile ChooseTile(int64_t rows) {
    return TileFor<Bf16Tile<V, N>, V::kTileRows>(rows);
  }
  static void StoreQuery(const float* query, int64_t head_dim, float* out) {
    __builtin_memcpy(out, query, head_dim * sizeof(float));
  }
  static void StoreWeights(const PageOf<V>& weights, float* out) {
    for (int64_t i = 0; i < kPageTokens / V::kLanes; ++i) {
      V::Store(out + i * V::kLanes, weights[i]);
    }
  }
};

// Pages that are fetched ahead: one takes less time to multiply than to come.
constexpr int64_t kPagesAhead = 2;

// The page to fetch while `page` is attended to.
inline int64_t PageAhead(const AttendArgs& args, int64_t page) {
  const int64_t last = AttendPages(args) - 1;
  return page + kPagesAhead < last ? page + kPagesAhead : last;
}

// A panel of keys or values, and as much memory for tiles to fetch meanwhile.
struct PagePanel {
  const float* now = nullptr;
  const float* next = nullptr;
};

// Pages that hold bf16, where they lie.
class Bf16Pages {
 public:
  Bf16Pages(const AttendArgs& args, float* /*scratch*/) : a_(args) {}

  PagePanel Keys(int64_t page) const { return PanelAt(page, a_.key_offset); }
  // Returns the panel, of which some dimensions are used.
  PagePanel Values(int64_t page, AttendRange dims) const {
    PagePanel panel = PanelAt(page, a_.value_offset);
    if (dims.end - dims.begin < a_.head_dim) {
      FetchValues(panel.next, dims);
      panel.next = panel.now;
    }
    return panel;
  }
  // [head_dim] the values of the pair of slots that `slot` belongs to, of some
  // dimensions. `which`: 0 or 1; results of either stay until the next call
  // with it.
  const KvPair* ValuePair(int64_t slot, AttendRange /*dims*/,
                          int /*which*/) const {
    const float* const panel = a_.pages[slot / kPageTokens] + a_.value_offset;
    return reinterpret_cast<const KvPair*>(panel) +
           slot % kPageTokens / 2 * a_.head_dim;
  }

 private:
  // Tiles fetch whole panels.
  void FetchValues(const float* panel, AttendRange dims) const {
    constexpr int64_t kLinePairs = 16;
    for (int64_t row = 0; row < kPageTokens / 2; ++row, panel += a_.head_dim) {
      for (int64_t i = dims.begin; i < dims.end; i += kLinePairs) {
        Fetch(panel + i);
      }
    }
  }

  PagePanel PanelAt(int64_t page, int64_t offset) const {
    return {.now = a_.pages[page] + offset,
            .next = a_.pages[PageAhead(a_, page)] + offset};
  }

  const AttendArgs& a_;
};

// Attends some queries at a time. Rows: how the products take queries and
// weights. Pages: where keys and values are, see Bf16Pages.
template <typename V, typename Rows, typename Pages>
class Bf16Attention {
 public:
  explicit Bf16Attention(const AttendArgs& args)
      : a_(args),
        stride_(AttendScoreStride(args)),
        scores_(args.scratch),
        queries_(scores_ + a_.num_queries * stride_),
        sums_(queries_ + a_.num_queries * a_.head_dim),
        totals_(sums_ + a_.num_queries * a_.head_dim),
        collected_(args.panels),
        pages_(args, collected_ + kPageTokens / 2 * a_.head_dim) {}

  void Run() {
    const AttendWork work = AttendWorkOf(a_);
    for (int64_t q = work.queries.begin; q < work.queries.end; ++q) {
      Rows::StoreQuery(a_.queries + q * a_.head_dim, a_.head_dim,
                       queries_ + q * a_.head_dim);
    }
    for (int64_t page = work.pages.begin; page < work.pages.end; ++page) {
      const PagePanel keys = pages_.Keys(page);
      ForTiles<V>(0, a_.num_queries,
                  [&](int64_t q, int64_t n) { Score(page, keys, q, n); });
    }
    for (int64_t q = work.weights.begin; q < work.weights.end; ++q) Weigh(q);
    dims_ = work.dims;
    if (dims_.begin < dims_.end) MixValues();
  }

 private:
  // Some positions, from an even one on, and their values as panels.
  struct Positions {
    int64_t first = 0;
    int64_t count = 0;
    PagePanel values;
  };

  // Scores with every slot in use. Rows that a query does not see get a score
  // as well; nobody reads it.
  void Score(int64_t page, const PagePanel& keys, int64_t q, int64_t n) {
    for (int64_t slot = 0; slot < kPageTokens; slot += 2 * V::kLanes) {
      Rows::template ChooseTile<2>(n)(
          {.x = queries_ + q * a_.head_dim,
           .x_stride = a_.head_dim,
           .weights = keys.now + slot,
           .weight_stride = kPageTokens,
           .next = keys.next + slot * a_.head_dim / 2,
           .inputs = a_.head_dim,
           .out = scores_ + q * stride_ + page * kPageTokens + slot,
           .out_stride = stride_});
    }
  }

  // Scores -> weights, every page in its place.
  void Weigh(int64_t q) {
    float* const scores = scores_ + q * stride_;
    const AttendQuery& query = a_.query[q];
    totals_[q] =
        Softmax<V>(query.first, ByPosition(a_, query, scores), a_.softcap,
                   scores, [&](int64_t begin, const PageOf<V>& weights) {
                     Rows::StoreWeights(weights, scores + begin);
                   });
  }

  void MixValues() {
    for (int64_t q = 0; q < a_.num_queries; ++q) {
      float* const sums = sums_ + q * a_.head_dim;
      for (int64_t i = dims_.begin; i < dims_.end; ++i) sums[i] = 0;
    }
    const int64_t paired = a_.prefix / 2 * 2;
    for (int64_t first = 0; first < paired; first += kPageTokens) {
      const int64_t left = paired - first;
      const Positions page = {
          .first = first,
          .count = left < kPageTokens ? left : kPageTokens,
          .values = pages_.Values(first / kPageTokens, dims_)};
      ForTiles<V>(0, a_.num_queries,
                  [&](int64_t q, int64_t n) { Mix(page, q, n); });
    }
    for (int64_t q = 0; q < a_.num_queries;) q = MixAncestors(q);
    for (int64_t q = 0; q < a_.num_queries; ++q) {
      Divide(a_.query[q], dims_, totals_[q], sums_ + q * a_.head_dim);
    }
  }

  // sums += weights * values, of positions within one page.
  void Mix(const Positions& p, int64_t q, int64_t n) {
    const int64_t in_page = p.first % kPageTokens;
    TileArgs tile = {.x = scores_ + q * stride_ + p.first - in_page +
                          in_page / Rows::kPerFloat,
                     .x_stride = stride_,
                     .weight_stride = a_.head_dim,
                     .inputs = p.count,
                     .resume = true,
                     .out_stride = a_.head_dim};
    for (int64_t dim = dims_.begin; dim < dims_.end;) {
      const bool two = dim + 2 * V::kLanes <= dims_.end;
      tile.weights = p.values.now + dim;
      tile.next = p.values.next + dim * kPageTokens / 2;
      tile.out = sums_ + q * a_.head_dim + dim;
      (two ? Rows::template ChooseTile<2>(n)
           : Rows::template ChooseTile<1>(n))(tile);
      dim += (two ? 2 : 1) * V::kLanes;
    }
  }

  // The positions after the prefix's last pair, for the queries from `q` that
  // see the same. Returns the next query.
  int64_t MixAncestors(int64_t q) {
    const AttendQuery& query = a_.query[q];
    int64_t end = q + 1;
    while (end < a_.num_queries && a_.query[end].ancestors == query.ancestors) {
      ++end;
    }
    const int64_t seen = a_.prefix + query.num_ancestors;
    for (int64_t begin = a_.prefix / 2 * 2; begin < seen;) {
      const int64_t page_end = begin / kPageTokens * kPageTokens + kPageTokens;
      const int64_t stop = page_end < seen ? page_end : seen;
      for (int64_t i = begin; i < stop; i += 2) {
        Collect(query, i, i + 1 < seen,
                collected_ + (i - begin) / 2 * a_.head_dim);
      }
      ForTiles<V>(q, end, [&](int64_t from, int64_t n) {
        Mix({.first = begin,
             .count = stop - begin,
             .values = {.now = collected_, .next = collected_}},
            from, n);
      });
      begin = stop;
    }
    return end;
  }

  // The values of a position and, if there is one, the next.
  void Collect(const AttendQuery& query, int64_t position, bool next,
               float* out) {
    const int64_t even = SlotOf(query, position);
    const int64_t odd = next ? SlotOf(query, position + 1) : even;
    const KvPair* const x = pages_.ValuePair(even, dims_, 0);
    const KvPair* const y = pages_.ValuePair(odd, dims_, 1);
    const int x_shift = even % 2 * 16, y_shift = odd % 2 * 16;
    const uint32_t y_mask = next ? 0xFFFF0000 : 0;
    KvPair* const pairs = reinterpret_cast<KvPair*>(out);
    for (int64_t i = dims_.begin; i < dims_.end; ++i) {
      pairs[i] = (x[i] >> x_shift & 0xFFFF) | (y[i] << (16 - y_shift) & y_mask);
    }
  }
  int64_t SlotOf(const AttendQuery& query, int64_t position) const {
    const int64_t behind = position - a_.prefix;
    return behind < 0 ? position : a_.prefix + query.ancestors[behind];
  }

  const AttendArgs& a_;
  const int64_t stride_;
  float* const scores_;     // [num_queries, stride] by slot, then by position
  float* const queries_;    // [num_queries, head_dim]
  float* const sums_;       // [num_queries, head_dim]
  float* const totals_;     // [num_queries] of the weights
  float* const collected_;  // [kPageTokens / 2, head_dim] pairs
  Pages pages_;
  AttendRange dims_;  // of the values in this call
};

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ATTENTION_BF16_INL_H_
