#include "tests/common/nn/amx_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/bf16.h"
#include "common/nn/amx_inl.h"
#include "common/nn/attention_amx_inl.h"
#include "common/nn/attention_bf16_inl.h"
#include "common/nn/blocks_amx_inl.h"
#include "common/nn/few_rows_amx_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_amx_inl.h"
#include "common/nn/linear_inl.h"
#include "common/nn/row_blocks_inl.h"

namespace espalier::nn {
namespace {

// AMX's tiles in software, after the operation sections of Intel's manual.
// TDPBF16PS: in one step, even and odd inputs are summed apart, their sums
// are added, and that to the tile. Subnormal numbers count as zero. TDPBSSD:
// four products of signed bytes are added to an integer.
class ModelTiles {
 public:
  static void Configure(const AmxConfig& config) {
    config_ = config;
    std::memset(tiles_, 0, sizeof(tiles_));
  }
  static void Release() { config_ = AmxConfig{.palette = 0}; }

  template <int T>
  static void Zero() {
    std::memset(tiles_[T], 0, sizeof(tiles_[T]));
  }
  template <int T>
  static void Load(const void* p, int64_t row_stride) {
    Zero<T>();
    for (int row = 0; row < config_.rows[T]; ++row) {
      std::memcpy(tiles_[T][row],
                  static_cast<const std::byte*>(p) + row * row_stride,
                  config_.row_bytes[T]);
    }
  }
  template <int T>
  static void Store(void* p, int64_t row_stride) {
    for (int row = 0; row < config_.rows[T]; ++row) {
      std::memcpy(static_cast<std::byte*>(p) + row * row_stride, tiles_[T][row],
                  config_.row_bytes[T]);
    }
  }
  template <int Sum, int A, int B>
  static void MultiplyAdd() {
    const int pairs = config_.row_bytes[A] / 4;
    for (int row = 0; row < config_.rows[Sum]; ++row) {
      for (int column = 0; column < config_.row_bytes[Sum] / 4; ++column) {
        float even = 0, odd = 0;
        for (int k = 0; k < pairs; ++k) {
          even =
              MulAdd(Element(A, row, 2 * k), Element(B, k, 2 * column), even);
          odd = MulAdd(Element(A, row, 2 * k + 1),
                       Element(B, k, 2 * column + 1), odd);
        }
        float sum;
        std::byte* const place = tiles_[Sum][row] + column * 4;
        std::memcpy(&sum, place, 4);
        sum = Flush(sum + Flush(even + odd));
        std::memcpy(place, &sum, 4);
      }
    }
  }
  template <int Sum, int A, int B>
  static void MultiplyAddBytes() {
    AddProductsOfBytes<Sum, A, B, int8_t>();
  }
  template <int Sum, int A, int B>
  static void MultiplyAddUnsigned() {
    AddProductsOfBytes<Sum, A, B, uint8_t>();
  }

 private:
  template <int Sum, int A, int B, typename Column>
  static void AddProductsOfBytes() {
    const int quads = config_.row_bytes[A] / 4;
    for (int row = 0; row < config_.rows[Sum]; ++row) {
      for (int column = 0; column < config_.row_bytes[Sum] / 4; ++column) {
        int32_t sum;
        std::byte* const place = tiles_[Sum][row] + column * 4;
        std::memcpy(&sum, place, 4);
        for (int k = 0; k < quads; ++k) {
          for (int i = 0; i < 4; ++i) {
            sum += Byte<int8_t>(A, row, k * 4 + i) *
                   Byte<Column>(B, k, column * 4 + i);
          }
        }
        std::memcpy(place, &sum, 4);
      }
    }
  }

  template <typename T>
  static int Byte(int tile, int row, int index) {
    return static_cast<T>(tiles_[tile][row][index]);
  }
  static float Flush(float x) {
    return std::fabs(x) < 0x1p-126f ? 0.0f * x : x;
  }
  static float MulAdd(float a, float b, float sum) {
    return Flush(std::fma(a, b, sum));
  }
  static float Element(int tile, int row, int index) {
    uint16_t bits;
    std::memcpy(&bits, tiles_[tile][row] + index * 2, 2);
    return Flush(Bf16ToFloat(bits));
  }

  // Like on a CPU, every thread has its own.
  static inline thread_local AmxConfig config_;
  static inline thread_local std::byte tiles_[kNumAmxTiles][kAmxRows]
                                             [kAmxRowBytes];
};

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
