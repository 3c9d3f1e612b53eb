// Part of a backend: included by kernels_<backend>.cc and the test of the
// software model only. See math_inl.h.
//
// Attention on pages of int8. A panel has the codes of a page of bf16, where
// that has its numbers (attention_bf16_inl.h), then the scale of each slot:
// [kPageTokens]. A panel is widened to bf16 when it is needed, into scratch
// that stays in the first cache, and attended to as bf16 is: half of the bytes
// come from memory, and the bits depend on positions alone as they do there.
#ifndef ESPALIER_COMMON_NN_ATTENTION_INT8_INL_H_
#define ESPALIER_COMMON_NN_ATTENTION_INT8_INL_H_

#include <cstdint>

#include "common/nn/attention_bf16_inl.h"
#include "common/nn/attention_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/row_blocks_inl.h"

namespace espalier::nn {
namespace {

// Codes, in memory that is declared as float.
using KvCode = int8_t __attribute__((may_alias));

inline const KvCode* CodesOf(const float* panel) {
  return reinterpret_cast<const KvCode*>(panel);
}
inline KvCode* CodesOf(float* panel) {
  return reinterpret_cast<KvCode*>(panel);
}
inline int64_t ScalesBegin(int64_t head_dim) {
  return kPageTokens * head_dim / 4;
}
// Where the codes of a slot lie in a panel of keys, and of values: the first,
// and every other of them.
inline int64_t KeyCode(int64_t slot, int64_t i) {
  return (i / 2 * kPageTokens + slot) * 2 + i % 2;
}
inline int64_t ValueCode(int64_t slot, int64_t i, int64_t head_dim) {
  return (slot / 2 * head_dim + i) * 2 + slot % 2;
}

// x = scale * code: store(i, code) of each. Returns the scale: 0 where all is
// 0, NaN where not all is finite.
template <typename Store>
float RoundToCodes(const float* x, int64_t size, Store store) {
  constexpr float kLargest = 127;
  constexpr float kRound = 0x1.8p23f;  // leaves no room for a fraction
  uint32_t peak = 0;
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & 0x7FFFFFFF;
    peak = bits > peak ? bits : peak;
  }
  const float most = Most(peak);
  const float steps = most > 0 ? kLargest / most : 0;
  for (int64_t i = 0; i < size; ++i) {
    const float rounded = steps > 0 ? (x[i] * steps + kRound) - kRound : 0;
    store(i, static_cast<int8_t>(rounded));
  }
  return most / kLargest;
}

inline void WriteInt8Kv(const KvPanels& page, int64_t slot, const float* key,
                        const float* value) {
  const int64_t dims = page.head_dim, scales = ScalesBegin(dims) + slot;
  KvCode *const keys = CodesOf(page.keys), *const values = CodesOf(page.values);
  page.keys[scales] = RoundToCodes(key, dims, [=](int64_t i, int8_t code) {
    keys[KeyCode(slot, i)] = code;
  });
  page.values[scales] = RoundToCodes(value, dims, [=](int64_t i, int8_t code) {
    values[ValueCode(slot, i, dims)] = code;
  });
}

inline void CopyInt8Kv(const KvPanels& from, int64_t from_slot,
                       const KvPanels& to, int64_t to_slot) {
  const int64_t dims = from.head_dim, scales = ScalesBegin(dims);
  const KvCode *const keys = CodesOf(from.keys), *const values =
                                                     CodesOf(from.values);
  KvCode *const to_keys = CodesOf(to.keys), *const to_values =
                                                CodesOf(to.values);
  for (int64_t i = 0; i < dims; ++i) {
    to_keys[KeyCode(to_slot, i)] = keys[KeyCode(from_slot, i)];
    to_values[ValueCode(to_slot, i, dims)] =
        values[ValueCode(from_slot, i, dims)];
  }
  to.keys[scales + to_slot] = from.keys[scales + from_slot];
  to.values[scales + to_slot] = from.values[scales + from_slot];
}

// Pages that hold int8, widened to bf16. V::StoreScaled widens kWidth codes, of
// which two head_dim are whole ones.
template <typename V>
class Int8Pages {
 public:
  // scratch: [(kPageTokens / 2 + 2) * head_dim] floats.
  Int8Pages(const AttendArgs& args, float* scratch)
      : a_(args),
        panel_(scratch),
        pairs_{scratch + kPageTokens / 2 * args.head_dim,
               scratch + (kPageTokens / 2 + 1) * args.head_dim} {}

  // See Bf16Pages. Keys and Values: valid until the next call of either.
  PagePanel Keys(int64_t page) const {
    const float* const keys = a_.pages[page] + a_.key_offset;
    const KvCode* const next = FetchScales(page, a_.key_offset);
    const float* const slots = keys + ScalesBegin(a_.head_dim);
    constexpr int64_t kRow = 2 * kPageTokens;  // two numbers of each slot
    float doubled[kRow];
    for (int64_t i = 0; i < kRow; ++i) doubled[i] = slots[i / 2];
    Reg scales[kRow / V::kLanes];
    for (int64_t i = 0; i < kRow / V::kLanes; ++i) {
      scales[i] = V::Load(doubled + i * V::kLanes);
    }
    for (int64_t row = 0; row < a_.head_dim / 2; ++row) {
      Fetch(next + row * kRow);
      ESPALIER_UNROLL
      for (int64_t i = 0; i < kRow; i += kWidth) {
        V::StoreScaled(CodesOf(keys) + row * kRow + i, scales + i / V::kLanes,
                       HalvesOf(panel_) + row * kRow + i);
      }
    }
    return {.now = panel_, .next = panel_};
  }
  PagePanel Values(int64_t page, AttendRange dims) const {
    const KvCode* const next = FetchScales(page, a_.value_offset);
    for (int64_t slot = 0; slot < kPageTokens; slot += 2) {
      for (int64_t i = 2 * dims.begin; i < 2 * dims.end; i += 64) {
        Fetch(next + slot * a_.head_dim + i);
      }
      WidenPair(page * kPageTokens + slot, dims,
                panel_ + slot / 2 * a_.head_dim);
    }
    return {.now = panel_, .next = panel_};
  }
  const KvPair* ValuePair(int64_t slot, AttendRange dims, int which) const {
    WidenPair(slot, dims, pairs_[which]);
    return reinterpret_cast<const KvPair*>(pairs_[which]);
  }

 private:
  using Reg = typename V::Reg;
  static constexpr int64_t kWidth = V::kScaledCodes;

  static KvHalf* HalvesOf(float* panel) {
    return reinterpret_cast<KvHalf*>(panel);
  }

  // Fetches the scales of the page ahead. Returns its codes.
  const KvCode* FetchScales(int64_t page, int64_t offset) const {
    const float* const panel = a_.pages[PageAhead(a_, page)] + offset;
    Fetch(panel + ScalesBegin(a_.head_dim));
    Fetch(panel + ScalesBegin(a_.head_dim) + kPageTokens / 2);
    return CodesOf(panel);
  }

  // Some dimensions' values of a slot and its neighbour.
  void WidenPair(int64_t slot, AttendRange dims, float* out) const {
    const float* const values = a_.pages[slot / kPageTokens] + a_.value_offset;
    const int64_t first = slot % kPageTokens / 2 * 2;
    Reg scales[kWidth / V::kLanes];
    for (Reg& scale : scales) {
      scale = V::SetPair(values + ScalesBegin(a_.head_dim) + first);
    }
    const KvCode* const codes = CodesOf(values) + first * a_.head_dim;
    for (int64_t i = 2 * dims.begin; i < 2 * dims.end; i += kWidth) {
      V::StoreScaled(codes + i, scales, HalvesOf(out) + i);
    }
  }

  const AttendArgs& a_;
  float* const panel_;     // [kPageTokens * head_dim / 2]
  float* const pairs_[2];  // [head_dim] each
};

// Pages of any type.
inline void WriteAnyKv(const KvPanels& page, int64_t slot, const float* key,
                       const float* value) {
  switch (page.type) {
    case KvType::kFloat32:
      return WriteKv(page, slot, key, value);
    case KvType::kBf16:
      return WriteBf16Kv(page, slot, key, value);
    case KvType::kInt8:
      return WriteInt8Kv(page, slot, key, value);
  }
}

inline void CopyAnyKv(const KvPanels& from, int64_t from_slot,
                      const KvPanels& to, int64_t to_slot) {
  switch (from.type) {
    case KvType::kFloat32:
      return CopyKv(from, from_slot, to, to_slot);
    case KvType::kBf16:
      return CopyBf16Kv(from, from_slot, to, to_slot);
    case KvType::kInt8:
      return CopyInt8Kv(from, from_slot, to, to_slot);
  }
}

template <typename V, typename Rows = FloatRows<V>>
void AttendAnyKv(const AttendArgs& a) {
  switch (a.type) {
    case KvType::kFloat32:
      return Attend<V>(a);
    case KvType::kBf16:
      return Bf16Attention<V, Rows, Bf16Pages>(a).Run();
    case KvType::kInt8:
      return Bf16Attention<V, Rows, Int8Pages<V>>(a).Run();
  }
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ATTENTION_INT8_INL_H_
