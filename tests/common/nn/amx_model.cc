#include "tests/common/nn/amx_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/bf16.h"
#include "common/nn/attention_amx_inl.h"
#include "common/nn/attention_bf16_inl.h"
#include "common/nn/blocks_amx_inl.h"
#include "common/nn/few_rows_amx_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_amx_inl.h"
#include "common/nn/linear_inl.h"
#include "common/nn/row_blocks_inl.h"
#include "tests/common/nn/amx_tiles.h"

namespace espalier::nn {
namespace {

// A vector of one float.
struct OneLane {
  using Reg = float;
  static constexpr int64_t kLanes = 1;
  static constexpr int kTileRows = 3;

  static Reg Set(float x) { return x; }
  static Reg Load(const float* p) { return *p; }
  static void Store(float* p, Reg x) { *p = x; }
  static Reg Add(Reg a, Reg b) { return a + b; }
  static Reg Sub(Reg a, Reg b) { return a - b; }
  static Reg Mul(Reg a, Reg b) { return a * b; }
  static Reg Div(Reg a, Reg b) { return a / b; }
  static Reg Min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg Max(Reg a, Reg b) { return a > b ? a : b; }
  static Reg MulAdd(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg Round(Reg x) { return std::nearbyint(x); }
  static Reg Fraction(Reg x) { return x - Round(x); }
  static Reg Scale(Reg x, Reg n) { return x * std::exp2(n); }
  static Reg KeepFirst(Reg x, int64_t n) { return n > 0 ? x : 0; }
  static float Total(Reg x) { return x; }
  static float Largest(Reg x) { return x; }
  static void StoreSplit(const Reg (&x)[kAmxInputs], void* out);
  static Reg LowBf16(const uint32_t* p) {
    return Bf16ToFloat(static_cast<uint16_t>(*p));
  }
  static Reg HighBf16(const uint32_t* p) {
    return Bf16ToFloat(static_cast<uint16_t>(*p >> 16));
  }
};

// An integer, of one sum or of four codes.
struct OneLaneInts {
  using V = OneLane;
  using Int = int32_t;
  static constexpr int kLanes = 1;
  static constexpr int kVectors = 2;
  static constexpr int kTileRows = 2;
  static constexpr int kHeldRows = 0;
  static constexpr bool kSignsCodes = false;

  template <bool kSigned>
  using Codes = Int;

  static Int Set(int32_t x) { return x; }
  static Int SetQuad(const int8_t* p) {
    return Load(reinterpret_cast<const std::byte*>(p));
  }
  static Int Load(const std::byte* p) {
    Int x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  static void Store(std::byte* p, Int x) { std::memcpy(p, &x, sizeof(x)); }
  static Int Add(Int a, Int b) { return a + b; }
  static Int AddBytes(Int a, Int b) {
    Int sum = 0;
    for (int shift = 0; shift < 32; shift += 8) {
      sum |= (((a >> shift & 0xFF) + (b >> shift & 0xFF)) & 0xFF) << shift;
    }
    return sum;
  }
  template <int bits>
  static Int ShiftLeft(Int x) {
    return x << bits;
  }
  static Int LowHalves(Int x) { return x & 0x0F0F0F0F; }
  static Int HighHalves(Int x) { return LowHalves(x >> 4); }
  static Int Dot(Int sum, Int codes, Int x) {
    for (int shift = 0; shift < 32; shift += 8) {
      sum += (codes >> shift & 0xFF) * static_cast<int8_t>(x >> shift);
    }
    return sum;
  }
  static float ToFloat(Int x) { return static_cast<float>(x); }
  static float LoadF16(const std::byte* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return F16ToFloat(half);
  }
  static float MulAdd(float a, float b, float c) { return std::fma(a, b, c); }
};

void PrepareModel(const PrepareArgs& a) {
  if (IsBlocks(a.type)) return PrepareRowBlocks<PlainBlocks>(a);
  const int64_t padded = PaddedInputs(a.inputs);
  AmxHalf* const out = static_cast<AmxHalf*>(a.out);
  std::memset(out, 0, OperandBytes(a.type, a.inputs));
  for (int64_t i = 0; i < a.inputs; ++i) {
    out[i] = FloatToBf16(a.x[i]);
    if (a.type == OperandType::kBf16) continue;
    out[padded + i] = FloatToBf16(a.x[i] - Bf16ToFloat(out[i]));
  }
}

void OneLane::StoreSplit(const Reg (&x)[kAmxInputs], void* out) {
  PrepareModel({.type = OperandType::kSplitBf16,
                .x = x,
                .inputs = kAmxInputs,
                .out = out});
}

void LinearOnModel(const LinearArgs& a) {
  if (IsBlocks(a.operand)) {
    return !FitsAmxBlocks(a.weights.format) ? LinearOfBlocks<OneLaneInts>(a)
           : AreFewAmxRows(a.rows)
               ? AmxLinearOfFewRows<OneLaneInts, ModelTiles>(a)
               : AmxLinearOfBlocks<OneLaneInts, ModelTiles>(a);
  }
  (a.operand == OperandType::kFloat32 ? Linear<OneLane>
                                      : AmxLinear<OneLane, ModelTiles>)(a);
}

void WriteModelKv(const KvPanels& page, int64_t slot, const float* key,
                  const float* value) {
  (page.type == KvType::kBf16
       ? WriteBf16Kv
       : WriteSplitKv<PrepareModel>)(page, slot, key, value);
}

void CopyModelKv(const KvPanels& from, int64_t from_slot, const KvPanels& to,
                 int64_t to_slot) {
  (from.type == KvType::kBf16 ? CopyBf16Kv : CopySplitKv)(from, from_slot, to,
                                                          to_slot);
}

}  // namespace

const Kernels& AmxModelKernels() {
  static constexpr Kernels kKernels = {
      .name = "amx-model",
      .exact_operand = OperandType::kSplitBf16,
      .fast_operand = OperandType::kBf16,
      .prepare = PrepareModel,
      .linear = LinearOnModel,
      .write_kv = WriteModelKv,
      .copy_kv = CopyModelKv,
      .attend = AmxAttend<OneLane, ModelTiles, PrepareModel>,
      .attend_queries = kAmxRows,
      .attend_calls = 1};
  return kKernels;
}

}  // namespace espalier::nn
