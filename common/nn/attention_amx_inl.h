// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
//
// Attention on AMX's tiles. Queries, keys, weights and values are split into
// two bf16 each, as rows of a product are (OperandType::kSplitBf16), so a page
// takes the memory that float32 would. A position's weight and value meet in
// the step of the 32 positions around it, whether these lie in a page of the
// prefix or were collected from a row's ancestors: that makes the bits of a
// tree's path those of sequential decoding.
#ifndef ESPALIER_COMMON_NN_ATTENTION_AMX_INL_H_
#define ESPALIER_COMMON_NN_ATTENTION_AMX_INL_H_

#include <cstdint>

#include "common/nn/amx_inl.h"
#include "common/nn/attention_inl.h"
#include "common/nn/kernels.h"

namespace espalier::nn {

static_assert(kPageTokens == kAmxInputs && kPageTokens == 2 * kAmxColumns);

// bf16 pairs, in memory that is declared as float.
using AmxPair = uint32_t __attribute__((may_alias));
using AmxHalf = uint16_t __attribute__((may_alias));

// Keys: [2: rounded, loss][head_dim / 2][kPageTokens][2].
// Values: [2][kPageTokens / 2][head_dim][2]. REQUIRES: whole tiles of head_dim.
template <void (*Prepare)(const PrepareArgs&)>
void WriteSplitKv(const KvPanels& page, int64_t slot, const float* key,
                  const float* value) {
  AmxPair* const keys = reinterpret_cast<AmxPair*>(page.keys);
  AmxHalf* const values = reinterpret_cast<AmxHalf*>(page.values);
  const int64_t panel = kPageTokens / 2 * page.head_dim;  // pairs
  alignas(64) AmxPair split[kAmxInputs];  // [2][kAmxInputs] bf16
  for (int64_t begin = 0; begin < page.head_dim; begin += kAmxInputs) {
    PrepareArgs args = {.type = OperandType::kSplitBf16,
                        .x = key + begin,
                        .inputs = kAmxInputs,
                        .out = split};
    Prepare(args);
    for (int64_t i = 0; i < kAmxInputs; ++i) {
      const int64_t part = i / kAmxColumns, pair = i % kAmxColumns;
      keys[part * panel + (begin / 2 + pair) * kPageTokens + slot] = split[i];
    }
    args.x = value + begin;
    Prepare(args);
    const AmxHalf* const halves = reinterpret_cast<const AmxHalf*>(split);
    for (int64_t i = 0; i < 2 * kAmxInputs; ++i) {
      const int64_t part = i / kAmxInputs, dim = begin + i % kAmxInputs;
      values[(part * panel + slot / 2 * page.head_dim + dim) * 2 + slot % 2] =
          halves[i];
    }
  }
}

inline void CopySplitKv(const KvPanels& from, int64_t from_slot,
                        const KvPanels& to, int64_t to_slot) {
  const int64_t dims = from.head_dim, panel = kPageTokens / 2 * dims;
  const auto* from_keys = reinterpret_cast<const AmxPair*>(from.keys);
  const auto* from_values = reinterpret_cast<const AmxHalf*>(from.values);
  auto* to_keys = reinterpret_cast<AmxPair*>(to.keys);
  auto* to_values = reinterpret_cast<AmxHalf*>(to.values);
  for (int64_t i = 0; i < dims; ++i) {  // both parts
    to_keys[i * kPageTokens + to_slot] = from_keys[i * kPageTokens + from_slot];
  }
  auto half = [&](int64_t slot, int64_t part, int64_t dim) {
    return (part * panel + slot / 2 * dims + dim) * 2 + slot % 2;
  };
  for (int64_t part = 0; part < 2; ++part) {
    for (int64_t i = 0; i < dims; ++i) {
      to_values[half(to_slot, part, i)] = from_values[half(from_slot, part, i)];
    }
  }
}

// Columns come from the second-level cache, so two blocks of rows share them.
enum AmxAttendTile {
  kBlockSums,  // [rows][16] float32: first block
  kBlockSums2,
  kOtherSums,  // second block
  kOtherSums2,
  kAttendRows,  // [rows][32] bf16
  kAttendRows2,
  kColumns,  // [16 pairs][16][2] bf16
  kColumns2,
};

// One step of a split product; strides and offsets in bytes. Where the losses
// lie is relative to what was rounded.
struct AmxSplitStep {
  const std::byte* rows = nullptr;
  const std::byte* other_rows = nullptr;  // null: one block
  int64_t row_stride = 0;
  int64_t row_loss = 0;
  const std::byte* columns = nullptr;  // two tiles, side by side
  int64_t column_stride = 0;
  int64_t column_loss = 0;
};

template <typename Tiles, int sums, int rows>
void MultiplyTiles(const std::byte* x, int64_t stride) {
  Tiles::template Load<rows>(x, stride);
  Tiles::template MultiplyAdd<sums, rows, kColumns>();
  Tiles::template MultiplyAdd<sums + 1, rows, kColumns2>();
}

// Sums += rows * columns, without what the two losses give together: that is
// below the rounding of the sums.
template <typename Tiles>
void MultiplySplit(const AmxSplitStep& s) {
  const std::byte* columns = s.columns;
  const int64_t stride = s.row_stride;
  Tiles::template Load<kColumns>(columns, s.column_stride);
  Tiles::template Load<kColumns2>(columns + kAmxRowBytes, s.column_stride);
  MultiplyTiles<Tiles, kBlockSums, kAttendRows>(s.rows, stride);
  MultiplyTiles<Tiles, kBlockSums, kAttendRows2>(s.rows + s.row_loss, stride);
  if (s.other_rows != nullptr) {
    const std::byte* const loss = s.other_rows + s.row_loss;
    MultiplyTiles<Tiles, kOtherSums, kAttendRows>(s.other_rows, stride);
    MultiplyTiles<Tiles, kOtherSums, kAttendRows2>(loss, stride);
  }
  columns += s.column_loss;
  Tiles::template Load<kColumns>(columns, s.column_stride);
  Tiles::template Load<kColumns2>(columns + kAmxRowBytes, s.column_stride);
  MultiplyTiles<Tiles, kBlockSums, kAttendRows>(s.rows, stride);
  if (s.other_rows != nullptr) {
    MultiplyTiles<Tiles, kOtherSums, kAttendRows2>(s.other_rows, stride);
  }
}

// Where the sums of a step's blocks lie; `stride` in bytes.
struct AmxSums {
  float* block = nullptr;
  float* other = nullptr;  // null: one block
  int64_t stride = 0;
};

template <typename Tiles>
void ClearSums() {
  Tiles::template Zero<kBlockSums>();
  Tiles::template Zero<kBlockSums2>();
  Tiles::template Zero<kOtherSums>();
  Tiles::template Zero<kOtherSums2>();
}

template <typename Tiles>
void StoreSums(const AmxSums& sums) {
  Tiles::template Store<kBlockSums>(sums.block, sums.stride);
  Tiles::template Store<kBlockSums2>(sums.block + kAmxColumns, sums.stride);
  if (sums.other == nullptr) return;
  Tiles::template Store<kOtherSums>(sums.other, sums.stride);
  Tiles::template Store<kOtherSums2>(sums.other + kAmxColumns, sums.stride);
}

template <typename V, typename Tiles, void (*Prepare)(const PrepareArgs&)>
class AmxAttention {
 public:
  explicit AmxAttention(const AttendArgs& args)
      : a_(args), stride_(AttendScoreStride(args)) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(args.scratch);
    float* free = args.scratch + (-address % kAmxRowBytes) / 4;
    auto take = [&](int64_t floats) {
      float* const taken = free;
      free += floats;
      return taken;
    };
    queries_ = Bytes(take(a_.num_queries * a_.head_dim));
    scores_ = take(a_.num_queries * stride_);
    weights_ = Bytes(take(a_.num_queries * stride_));
    sums_ = take(a_.num_queries * a_.head_dim);
    own_ = reinterpret_cast<AmxPair*>(take(kPageTokens * a_.head_dim));
  }

  void Run() {
    for (int64_t q = 0; q < a_.num_queries; ++q) {
      Prepare({.type = OperandType::kSplitBf16,
               .x = a_.queries + q * a_.head_dim,
               .inputs = a_.head_dim,
               .out = queries_ + q * a_.head_dim * 4});
    }
    const AmxBlocks blocks(a_.num_queries);
    Tiles::Configure(AmxConfigFor(blocks.size, kColumns));
    auto pair = [&](int64_t i) {
      return Pair{blocks.Begin(i),
                  i + 1 < blocks.count ? blocks.Begin(i + 1) : kNone};
    };
    for (int64_t i = 0; i < blocks.count; i += 2) Score(pair(i));
    for (int64_t q = 0; q < a_.num_queries; ++q) Weigh(q);
    for (int64_t i = 0; i < blocks.count; i += 2) MixPrefix(pair(i));
    for (int64_t q = 0; q < a_.num_queries;) q = MixOwn(q);
    Tiles::Release();
    for (int64_t q = 0; q < a_.num_queries; ++q) {
      const float scale = 1.0f / a_.query[q].out[0];
      for (int64_t i = 0; i < a_.head_dim; ++i) {
        a_.query[q].out[i] = sums_[q * a_.head_dim + i] * scale;
      }
    }
  }

 private:
  // The first queries of two blocks.
  static constexpr int64_t kNone = -1;
  struct Pair {
    int64_t block = 0;
    int64_t other = kNone;
  };

  static std::byte* Bytes(float* p) { return reinterpret_cast<std::byte*>(p); }
  static const std::byte* Bytes(const float* p) {
    return reinterpret_cast<const std::byte*>(p);
  }
  int64_t whole_pages() const { return a_.prefix / kPageTokens; }

  // Rows of `bytes` each from `first`, of a block's and the other block's
  // queries.
  void SetRows(const Pair& pair, const std::byte* first, int64_t bytes,
               AmxSplitStep& step) const {
    step.row_stride = bytes;
    step.row_loss = bytes / 2;
    step.rows = first + pair.block * bytes;
    if (pair.other != kNone) step.other_rows = first + pair.other * bytes;
  }
  AmxSums SumsAt(const Pair& pair, float* first, int64_t stride) const {
    return {
        .block = first + pair.block * stride,
        .other = pair.other == kNone ? nullptr : first + pair.other * stride,
        .stride = stride * 4};
  }

  // Scores of queries with every slot in use. Rows that a query does not see
  // get a score as well; nobody reads it.
  void Score(const Pair& pair) {
    AmxSplitStep step = {.column_stride = kPageTokens * 4,
                         .column_loss = kPageTokens * a_.head_dim * 2};
    for (int64_t page = 0; page * kPageTokens < stride_; ++page) {
      ClearSums<Tiles>();
      const std::byte* const keys = Bytes(a_.pages[page] + a_.key_offset);
      for (int64_t dim = 0; dim < a_.head_dim; dim += kAmxInputs) {
        SetRows(pair, queries_ + dim * 2, a_.head_dim * 4, step);
        step.columns = keys + dim / 2 * kPageTokens * 4;
        MultiplySplit<Tiles>(step);
      }
      StoreSums<Tiles>(SumsAt(pair, scores_ + page * kPageTokens, stride_));
    }
  }

  // The sum of a query's weights waits in `out`, where the result goes.
  void Weigh(int64_t q) {
    const AttendQuery& query = a_.query[q];
    float* const scores = scores_ + q * stride_;
    query.out[0] = WeightsOf<V>(a_, query, scores);
    for (int64_t i = a_.prefix + query.num_ancestors; i < stride_; ++i) {
      scores[i] = 0;
    }
    Prepare({.type = OperandType::kSplitBf16,
             .x = scores,
             .inputs = stride_,
             .out = weights_ + q * stride_ * 4});
  }

  // The weights of queries at a position and the 31 behind it.
  AmxSplitStep MixStep(const Pair& pair, int64_t position) const {
    AmxSplitStep step = {.column_stride = a_.head_dim * 4,
                         .column_loss = kPageTokens * a_.head_dim * 2};
    SetRows(pair, weights_ + position * 2, stride_ * 4, step);
    return step;
  }

  // sums = weights * values, for the pages that the prefix fills.
  void MixPrefix(const Pair& pair) {
    for (int64_t dim = 0; dim < a_.head_dim; dim += 2 * kAmxColumns) {
      ClearSums<Tiles>();
      for (int64_t page = 0; page < whole_pages(); ++page) {
        AmxSplitStep step = MixStep(pair, page * kPageTokens);
        step.columns = Bytes(a_.pages[page] + a_.value_offset + dim);
        MultiplySplit<Tiles>(step);
      }
      StoreSums<Tiles>(SumsAt(pair, sums_ + dim, a_.head_dim));
    }
  }

  // The positions behind these pages, for the queries from `first` that see the
  // same. Returns the next query.
  int64_t MixOwn(int64_t first) {
    const AttendQuery& query = a_.query[first];
    int64_t end = first + 1;
    while (end < a_.num_queries && end < first + kAmxRows &&
           a_.query[end].ancestors == query.ancestors) {
      ++end;
    }
    Tiles::Configure(AmxConfigFor(end - first, kColumns));
    const int64_t seen = a_.prefix + query.num_ancestors;
    for (int64_t position = whole_pages() * kPageTokens; position < seen;
         position += kPageTokens) {
      Collect(query, position,
              position + kPageTokens < seen ? position + kPageTokens : seen);
      AmxSplitStep step = MixStep({first}, position);
      for (int64_t dim = 0; dim < a_.head_dim; dim += 2 * kAmxColumns) {
        const AmxSums sums = SumsAt({first}, sums_ + dim, a_.head_dim);
        Tiles::template Load<kBlockSums>(sums.block, sums.stride);
        Tiles::template Load<kBlockSums2>(sums.block + kAmxColumns,
                                          sums.stride);
        step.columns = reinterpret_cast<const std::byte*>(own_ + dim);
        MultiplySplit<Tiles>(step);
        StoreSums<Tiles>(sums);
      }
    }
    return end;
  }

  // The values of a query's positions begin .. end - 1 as a page of its own.
  void Collect(const AttendQuery& query, int64_t begin, int64_t end) {
    __builtin_memset(own_, 0, kPageTokens * a_.head_dim * sizeof(AmxPair));
    for (int64_t position = begin; position < end; ++position) {
      const int64_t behind = position - a_.prefix;
      const int64_t slot =
          behind < 0 ? position : a_.prefix + query.ancestors[behind];
      const float* const page = a_.pages[slot / kPageTokens] + a_.value_offset;
      AddValue(reinterpret_cast<const AmxPair*>(page), slot % kPageTokens,
               position - begin);
    }
  }

  // To the page of its own.
  void AddValue(const AmxPair* page, int64_t slot, int64_t own_slot) {
    const int64_t dims = a_.head_dim;
    const int64_t shift = slot % 2 * 16, own_shift = own_slot % 2 * 16;
    for (int64_t part = 0; part < 2; ++part) {
      const int64_t half = part * kPageTokens / 2;
      const AmxPair* const from = page + (half + slot / 2) * dims;
      AmxPair* const to = own_ + (half + own_slot / 2) * dims;
      for (int64_t i = 0; i < dims; ++i) {
        to[i] |= (from[i] >> shift & 0xFFFF) << own_shift;
      }
    }
  }

  const AttendArgs& a_;
  const int64_t stride_;  // of scores, in positions
  std::byte* queries_;    // [num_queries] split operands
  float* scores_;         // [num_queries, stride]
  std::byte* weights_;    // [num_queries] split operands, by position
  float* sums_;           // [num_queries, head_dim]
  AmxPair* own_;          // values of one page
};

template <typename V, typename Tiles, void (*Prepare)(const PrepareArgs&)>
void AmxAttend(const AttendArgs& args) {
  AmxAttention<V, Tiles, Prepare>(args).Run();
}

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ATTENTION_AMX_INL_H_
