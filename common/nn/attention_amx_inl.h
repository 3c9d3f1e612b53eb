// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
//
// Attention on AMX's tiles. Queries and weights are split into two bf16 each,
// as rows of a product are (OperandType::kSplitBf16). So are the keys and
// values of pages of float32, which then take the same memory; pages of bf16
// are laid out as tiles read them already. A position's weight and value meet
// in the step of the 32 positions around it, whether these lie in a page of the
// prefix or were collected from a row's ancestors: that makes the bits of a
// tree's path those of sequential decoding.
#ifndef ESPALIER_COMMON_NN_ATTENTION_AMX_INL_H_
#define ESPALIER_COMMON_NN_ATTENTION_AMX_INL_H_

#include <cstdint>

#include "common/nn/amx_inl.h"
#include "common/nn/attention_bf16_inl.h"
#include "common/nn/attention_inl.h"
#include "common/nn/kernels.h"

namespace espalier::nn {
namespace {

static_assert(kPageTokens == kAmxInputs && kPageTokens == 2 * kAmxColumns);
static_assert(kAttendDims % (2 * kAmxColumns) == 0);

// bf16 pairs, in memory that is declared as float.
using AmxPair = uint32_t __attribute__((may_alias));
using AmxHalf = uint16_t __attribute__((may_alias));

// Into pairs whose other halves are another slot's.
inline void PutHalves(const AmxHalf* halves, int64_t slot, AmxPair* pairs) {
  const int shift = slot % 2 * 16;
  const AmxPair kept = AmxPair{0xFFFF0000} >> shift;
  for (int64_t i = 0; i < kAmxInputs; ++i) {
    pairs[i] = (pairs[i] & kept) | AmxPair{halves[i]} << shift;
  }
}

// Keys: [2: rounded, loss][head_dim / 2][kPageTokens][2].
// Values: [2][kPageTokens / 2][head_dim][2]. REQUIRES: whole tiles of head_dim.
template <void (*Prepare)(const PrepareArgs&)>
void WriteSplitKv(const KvPanels& page, int64_t slot, const float* key,
                  const float* value) {
  const int64_t panel = kPageTokens / 2 * page.head_dim;  // pairs
  AmxPair* keys = reinterpret_cast<AmxPair*>(page.keys) + slot;
  AmxPair* values =
      reinterpret_cast<AmxPair*>(page.values) + slot / 2 * page.head_dim;
  alignas(64) AmxPair split[kAmxInputs];  // [2][kAmxInputs] bf16
  const AmxHalf* const halves = reinterpret_cast<const AmxHalf*>(split);
  for (int64_t begin = 0; begin < page.head_dim; begin += kAmxInputs) {
    PrepareArgs args = {.type = OperandType::kSplitBf16,
                        .x = key + begin,
                        .inputs = kAmxInputs,
                        .out = split};
    Prepare(args);
    for (int64_t i = 0; i < kAmxInputs / 2; ++i, keys += kPageTokens) {
      keys[0] = split[i];
      keys[panel] = split[kAmxInputs / 2 + i];
    }
    args.x = value + begin;
    Prepare(args);
    PutHalves(halves, slot, values);
    PutHalves(halves + kAmxInputs, slot, values + panel);
    values += kAmxInputs;
  }
}

// bf16 of which a key or value of a page consists.
constexpr int64_t KvParts(KvType type) { return type == KvType::kBf16 ? 1 : 2; }

// The value of a slot to a slot of another page.
inline void CopyValue(KvType type, int64_t dims, const AmxPair* from,
                      int64_t slot, AmxPair* to, int64_t to_slot) {
  const int shift = slot % 2 * 16, to_shift = to_slot % 2 * 16;
  const AmxPair kept = AmxPair{0xFFFF0000} >> to_shift;
  for (int64_t part = 0; part < KvParts(type); ++part) {
    const int64_t half = part * kPageTokens / 2;
    const AmxPair* const x = from + (half + slot / 2) * dims;
    AmxPair* const y = to + (half + to_slot / 2) * dims;
    for (int64_t i = 0; i < dims; ++i) {
      y[i] = (y[i] & kept) | (x[i] >> shift & 0xFFFF) << to_shift;
    }
  }
}

inline void CopySplitKv(const KvPanels& from, int64_t from_slot,
                        const KvPanels& to, int64_t to_slot) {
  const auto* from_keys = reinterpret_cast<const AmxPair*>(from.keys);
  auto* to_keys = reinterpret_cast<AmxPair*>(to.keys);
  for (int64_t i = 0; i < from.head_dim; ++i) {  // both parts
    to_keys[i * kPageTokens + to_slot] = from_keys[i * kPageTokens + from_slot];
  }
  CopyValue(KvType::kFloat32, from.head_dim,
            reinterpret_cast<const AmxPair*>(from.values), from_slot,
            reinterpret_cast<AmxPair*>(to.values), to_slot);
}

enum AmxAttendTile {
  kAttendSums,  // [rows][16] float32: first half of a panel
  kAttendSums2,
  kAttendRows,  // [rows][32] bf16
  kLossAttendRows,
  kColumns,  // [16 pairs][16][2] bf16
  kColumns2,
};

// One step of a product of split rows: 32 inputs times two tiles of columns,
// side by side. Strides and offsets in bytes; where the losses lie is relative
// to what was rounded.
struct AmxSplitStep {
  const std::byte* rows = nullptr;
  int64_t row_stride = 0;
  int64_t row_loss = 0;
  const std::byte* columns = nullptr;
  const std::byte* next_columns = nullptr;  // fetched meanwhile
  int64_t column_stride = 0;
  int64_t column_loss = 0;
};

inline void FetchColumns(const std::byte* columns, int64_t stride) {
  for (int64_t i = 0; i < kAmxInputs / 2; ++i) {
    __builtin_prefetch(columns + i * stride);
    __builtin_prefetch(columns + i * stride + kAmxRowBytes);
  }
}

template <typename Tiles, int rows>
void MultiplyTiles() {
  Tiles::template MultiplyAdd<kAttendSums, rows, kColumns>();
  Tiles::template MultiplyAdd<kAttendSums2, rows, kColumns2>();
}

// Sums += rows * columns, without what the two losses give together: that is
// below the rounding of the sums. type: whether columns have losses.
template <typename Tiles, KvType type>
void MultiplySplit(const AmxSplitStep& s) {
  const int64_t stride = s.column_stride;
  Tiles::template Load<kAttendRows>(s.rows, s.row_stride);
  Tiles::template Load<kLossAttendRows>(s.rows + s.row_loss, s.row_stride);
  if (s.next_columns != nullptr) {
    FetchColumns(s.next_columns, stride);
    if constexpr (type == KvType::kFloat32) {
      FetchColumns(s.next_columns + s.column_loss, stride);
    }
  }
  Tiles::template Load<kColumns>(s.columns, stride);
  Tiles::template Load<kColumns2>(s.columns + kAmxRowBytes, stride);
  MultiplyTiles<Tiles, kAttendRows>();
  MultiplyTiles<Tiles, kLossAttendRows>();
  if constexpr (type == KvType::kFloat32) {
    const std::byte* const losses = s.columns + s.column_loss;
    Tiles::template Load<kColumns>(losses, stride);
    Tiles::template Load<kColumns2>(losses + kAmxRowBytes, stride);
    MultiplyTiles<Tiles, kAttendRows>();
  }
}

template <typename Tiles>
void ClearSums() {
  Tiles::template Zero<kAttendSums>();
  Tiles::template Zero<kAttendSums2>();
}

// Sums of a panel; `stride` in floats.
template <typename Tiles>
void LoadSums(const float* sums, int64_t stride) {
  Tiles::template Load<kAttendSums>(sums, stride * 4);
  Tiles::template Load<kAttendSums2>(sums + kAmxColumns, stride * 4);
}

template <typename Tiles>
void StoreSums(float* sums, int64_t stride) {
  Tiles::template Store<kAttendSums>(sums, stride * 4);
  Tiles::template Store<kAttendSums2>(sums + kAmxColumns, stride * 4);
}

// Values by position instead of slot: what a query sees after the pages that
// the prefix fills. Queries see much of the same, so a value stays where it is
// as long as nobody needs the place; what nobody put there is zero.
class AmxOwnPages {
 public:
  AmxOwnPages(const AttendArgs& args, int64_t pages, float* memory)
      : a_(args),
        page_floats_(KvPanelFloats(args.type, args.head_dim)),
        pages_(pages),
        memory_(memory),
        held_(reinterpret_cast<Slot*>(memory + pages * page_floats_)) {}

  void Clear() {
    __builtin_memset(memory_, 0, pages_ * page_floats_ * 4);
    for (int64_t i = 0; i < pages_ * kPageTokens; ++i) held_[i] = -1;
  }

  // The value of a slot at the index-th position.
  void Hold(int64_t index, int64_t slot) {
    if (held_[index] == slot) return;
    held_[index] = static_cast<Slot>(slot);
    const AmxPair* const from = reinterpret_cast<const AmxPair*>(
        a_.pages[slot / kPageTokens] + a_.value_offset);
    float* const to = memory_ + index / kPageTokens * page_floats_;
    CopyValue(a_.type, a_.head_dim, from, slot % kPageTokens,
              reinterpret_cast<AmxPair*>(to), index % kPageTokens);
  }
  // The values of the page that the index-th position is in.
  const float* page(int64_t index) const {
    return memory_ + index / kPageTokens * page_floats_;
  }

 private:
  using Slot = int32_t __attribute__((may_alias));

  const AttendArgs& a_;
  const int64_t page_floats_;
  const int64_t pages_;
  float* memory_;  // pages, laid out as values of the cache
  Slot* held_;     // by position; -1: none
};

// Attends up to kAmxRows queries at a time.
template <typename V, typename Tiles, void (*Prepare)(const PrepareArgs&),
          KvType type>
class AmxAttention {
 public:
  explicit AmxAttention(const AttendArgs& args)
      : a_(args),
        pages_(AttendPages(args)),
        stride_(AttendScoreStride(args)),
        first_own_(args.prefix / kPageTokens * kPageTokens),
        scores_(Aligned(args.scratch)),
        queries_(scores_ + a_.num_queries * stride_),
        sums_(queries_ + a_.num_queries * a_.head_dim),
        totals_(sums_ + a_.num_queries * a_.head_dim),
        own_(args, pages_ - first_own_ / kPageTokens, Aligned(args.panels)) {}

  void Run() {
    const AttendWork work = AttendWorkOf(a_);
    for (int64_t page = work.pages.begin;
         page < work.pages.begin + kPagesAhead && page < work.pages.end;
         ++page) {
      FetchPanel(Keys(page));
    }
    for (int64_t q = work.queries.begin; q < work.queries.end; ++q) {
      Prepare({.type = OperandType::kSplitBf16,
               .x = a_.queries + q * a_.head_dim,
               .inputs = a_.head_dim,
               .out = queries_ + q * a_.head_dim});
    }
    if (work.pages.begin < work.pages.end) Score(work.pages);
    for (int64_t q = work.weights.begin; q < work.weights.end; ++q) {
      FetchValues(q);
      Weigh(q);
    }
    if (work.dims.begin < work.dims.end) MixValues(work.dims);
    if (tile_rows_ > 0) Tiles::Release();
  }

 private:
  static float* Aligned(float* p) {
    return p + (-reinterpret_cast<uintptr_t>(p) % kAmxRowBytes) / 4;
  }
  static const std::byte* Bytes(const float* p) {
    return reinterpret_cast<const std::byte*>(p);
  }

  void SetTileRows(int64_t rows) {
    if (rows == tile_rows_) return;
    Tiles::Configure(AmxConfigFor(rows, kColumns));
    tile_rows_ = rows;
  }

  // Scores with every slot in use. Rows that a query does not see get a score
  // as well; nobody reads it.
  void Score(AttendRange pages) {
    SetTileRows(a_.num_queries);
    AmxSplitStep step = {.row_stride = a_.head_dim * 4,
                         .row_loss = a_.head_dim * 2,
                         .column_stride = kPageTokens * 4,
                         .column_loss = kPageTokens * a_.head_dim * 2};
    constexpr int64_t kStepBytes = kAmxInputs / 2 * kPageTokens * 4;
    for (int64_t page = pages.begin; page < pages.end; ++page) {
      ClearSums<Tiles>();
      const std::byte* const keys = Keys(page);
      const std::byte* const next =
          page + kPagesAhead < pages.end ? Keys(page + kPagesAhead) : nullptr;
      for (int64_t dim = 0; dim < a_.head_dim; dim += kAmxInputs) {
        const int64_t offset = dim / kAmxInputs * kStepBytes;
        step.rows = Bytes(queries_ + dim / 2);
        step.columns = keys + offset;
        step.next_columns = next == nullptr ? nullptr : next + offset;
        MultiplySplit<Tiles, type>(step);
      }
      StoreSums<Tiles>(scores_ + page * kPageTokens, stride_);
    }
  }
  const std::byte* Keys(int64_t page) const {
    return Bytes(a_.pages[page] + a_.key_offset);
  }

  // Starts to load keys or values of a page.
  void FetchPanel(const std::byte* panel) const {
    const int64_t bytes = KvPanelFloats(type, a_.head_dim) * 4;
    for (int64_t i = 0; i < bytes; i += kAmxRowBytes) {
      __builtin_prefetch(panel + i);
    }
  }
  // A query's share of the values that are multiplied first.
  void FetchValues(int64_t q) const {
    constexpr int64_t kFirstPages = 8;
    const int64_t filled = first_own_ / kPageTokens;
    const int64_t pages = filled < kFirstPages ? filled : kFirstPages;
    for (int64_t page = pages * q / a_.num_queries;
         page < pages * (q + 1) / a_.num_queries; ++page) {
      FetchPanel(Bytes(Values(page)));
    }
  }

  // Scores -> weights, every page in its place as one split operand.
  void Weigh(int64_t q) {
    float* const scores = scores_ + q * stride_;
    const AttendQuery& query = a_.query[q];
    totals_[q] =
        Softmax<V>(query.first, ByPosition(a_, query, scores), a_.softcap,
                   scores, [&](int64_t begin, const PageOf<V>& weights) {
                     V::StoreSplit(weights, scores + begin);
                   });
  }

  // The weights of the queries from `first` at a position and the 31 after it,
  // times `values` of these.
  AmxSplitStep MixStep(int64_t first, int64_t position,
                       const float* values) const {
    return {.rows = Bytes(scores_ + first * stride_ + position),
            .row_stride = stride_ * 4,
            .row_loss = kPageTokens * 2,
            .columns = Bytes(values),
            .column_stride = a_.head_dim * 4,
            .column_loss = kPageTokens * a_.head_dim * 2};
  }

  void MixValues(AttendRange dims) {
    SetTileRows(a_.num_queries);
    MixPrefix(dims);
    own_.Clear();
    for (int64_t q = 0; q < a_.num_queries;) q = MixOwn(q, dims);
    for (int64_t q = 0; q < a_.num_queries; ++q) {
      Divide(a_.query[q], dims, totals_[q], sums_ + q * a_.head_dim);
    }
  }

  // sums = weights * values, for the pages that the prefix fills.
  void MixPrefix(AttendRange dims) {
    const int64_t pages = first_own_ / kPageTokens;
    for (int64_t dim = dims.begin; dim < dims.end; dim += 2 * kAmxColumns) {
      ClearSums<Tiles>();
      for (int64_t page = 0; page < pages; ++page) {
        AmxSplitStep step =
            MixStep(/*first=*/0, page * kPageTokens, Values(page) + dim);
        if (page + kPagesAhead < pages) {
          step.next_columns = Bytes(Values(page + kPagesAhead) + dim);
        }
        MultiplySplit<Tiles, type>(step);
      }
      StoreSums<Tiles>(sums_ + dim, a_.head_dim);
    }
  }
  const float* Values(int64_t page) const {
    return a_.pages[page] + a_.value_offset;
  }

  // The positions after these pages, for the queries from `first` that see the
  // same. Returns the next query.
  int64_t MixOwn(int64_t first, AttendRange dims) {
    const AttendQuery& query = a_.query[first];
    int64_t end = first + 1;
    while (end < a_.num_queries && a_.query[end].ancestors == query.ancestors) {
      ++end;
    }
    SetTileRows(end - first);
    const int64_t seen = a_.prefix + query.num_ancestors;
    for (int64_t position = first_own_; position < seen; ++position) {
      const int64_t behind = position - a_.prefix;
      own_.Hold(position - first_own_,
                behind < 0 ? position : a_.prefix + query.ancestors[behind]);
    }
    for (int64_t dim = dims.begin; dim < dims.end; dim += 2 * kAmxColumns) {
      float* const sums = sums_ + first * a_.head_dim + dim;
      LoadSums<Tiles>(sums, a_.head_dim);
      for (int64_t position = first_own_; position < seen;
           position += kPageTokens) {
        const float* const values = own_.page(position - first_own_) + dim;
        MultiplySplit<Tiles, type>(MixStep(first, position, values));
      }
      StoreSums<Tiles>(sums, a_.head_dim);
    }
    return end;
  }

  const AttendArgs& a_;
  const int64_t pages_;      // with slots in use
  const int64_t stride_;     // of scores
  const int64_t first_own_;  // position after the pages that the prefix fills
  float* const scores_;      // [num_queries, stride], then weights in place
  float* const queries_;     // [num_queries] split operands of head_dim
  float* const sums_;        // [num_queries, head_dim]
  float* const totals_;      // [num_queries] of the weights
  AmxOwnPages own_;
  int64_t tile_rows_ = 0;
};

template <typename V, typename Tiles, void (*Prepare)(const PrepareArgs&),
          KvType type>
void AmxAttendTo(const AttendArgs& args) {
  AttendArgs block = args;
  for (int64_t left = args.num_queries; left > 0; left -= kAmxRows) {
    block.num_queries = left < kAmxRows ? left : kAmxRows;
    AmxAttention<V, Tiles, Prepare, type>(block).Run();
    block.queries += kAmxRows * args.head_dim;
    block.query += kAmxRows;
  }
}

// Pages of float32 or bf16. REQUIRES: whole tiles of head_dim.
template <typename V, typename Tiles, void (*Prepare)(const PrepareArgs&)>
void AmxAttend(const AttendArgs& args) {
  args.type == KvType::kBf16
      ? AmxAttendTo<V, Tiles, Prepare, KvType::kBf16>(args)
      : AmxAttendTo<V, Tiles, Prepare, KvType::kFloat32>(args);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ATTENTION_AMX_INL_H_
