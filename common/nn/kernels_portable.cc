// For any CPU with 16-byte vectors or without: the compiler's own vectors.
#include <cstring>

#include "common/nn/attention_int8_inl.h"
#include "common/nn/blocks_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/reduce_inl.h"
#include "common/nn/row_blocks_inl.h"
#include "common/nn/row_kernels_inl.h"

namespace espalier::nn {
namespace {

struct Portable {
  using Reg = float __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16)));
  using Bits = uint32_t __attribute__((vector_size(16)));
  static constexpr int64_t kLanes = 4;
  static constexpr int kTileRows = 6;

  static Reg Set(float x) { return Reg{x, x, x, x}; }
  // Two numbers by turns.
  static Reg SetPair(const float* p) { return Reg{p[0], p[1], p[0], p[1]}; }
  static Reg Load(const float* p) {
    Reg x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  static void Store(float* p, Reg x) { std::memcpy(p, &x, sizeof(x)); }
  static Reg Add(Reg a, Reg b) { return a + b; }
  static Reg Sub(Reg a, Reg b) { return a - b; }
  static Reg Mul(Reg a, Reg b) { return a * b; }
  static Reg Div(Reg a, Reg b) { return a / b; }
  static Reg Min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg Max(Reg a, Reg b) { return a > b ? a : b; }
  static Reg MulAdd(Reg a, Reg b, Reg c) { return a * b + c; }
  // For |x| below 2^22: the sum has no room for a fraction.
  static Reg Round(Reg x) {
    const Reg magic = Set(0x1.8p23f);
    return (x + magic) - magic;
  }
  // x minus the whole number next to it.
  static Reg Fraction(Reg x) { return Sub(x, Round(x)); }
  // x 2^n for whole numbers n of -126 .. 127.
  static Reg Scale(Reg x, Reg n) {
    using Ints = int32_t __attribute__((vector_size(16)));
    return x * reinterpret_cast<Reg>((__builtin_convertvector(n, Ints) + 127)
                                     << 23);
  }
  // Zero from lane n on.
  static Reg KeepFirst(Reg x, int64_t n) {
    for (int64_t lane = n < 0 ? 0 : n; lane < kLanes; ++lane) x[lane] = 0;
    return x;
  }
  static float Total(Reg x) { return (x[0] + x[2]) + (x[1] + x[3]); }
  static float Largest(Reg x) {
    const float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
    return a > b ? a : b;
  }
  // kScaledCodes codes times their scales, as bf16.
  static constexpr int64_t kScaledCodes = 16;
  static void StoreScaled(const void* codes, const Reg* scales, void* out) {
    int8_t bytes[kScaledCodes];
    float wide[kScaledCodes];
    uint16_t rounded[kScaledCodes];
    std::memcpy(bytes, codes, sizeof(bytes));
    for (int64_t i = 0; i < kScaledCodes; ++i) {
      wide[i] = static_cast<float>(bytes[i]) * scales[i / kLanes][i % kLanes];
    }
    RoundToBf16(wide, kScaledCodes, rounded);
    std::memcpy(out, rounded, sizeof(rounded));
  }
  // The low halves, multiplied in full.
  static Words MulLow(Words a, Words b) {
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
  }
  static Reg LowBf16(const uint32_t* p) {
    return reinterpret_cast<Reg>(Pairs(p) << 16);
  }
  static Reg HighBf16(const uint32_t* p) {
    return reinterpret_cast<Reg>(Pairs(p) & 0xFFFF0000u);
  }

 private:
  static Bits Pairs(const uint32_t* p) {
    Bits x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
};

struct PortableInts {
  using V = Portable;
  using Int = int32_t __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kVectors = 2;
  static constexpr int kTileRows = 2;
  static constexpr int kHeldRows = 0;
  static constexpr bool kSignsCodes = false;

  template <bool kSigned>
  using Codes = Int;

  static Int Set(int32_t x) { return Int{x, x, x, x}; }
  // The even and the odd ones of four inputs, as 16 bits.
  struct Quad {
    Int even;
    Int odd;
  };
  static Quad SetQuad(const int8_t* p) {
    return {Set((p[0] & 0xFFFF) | p[2] * 0x10000),
            Set((p[1] & 0xFFFF) | p[3] * 0x10000)};
  }
  static Int Load(const std::byte* p) {
    Int x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  // Adds sums, or four codes at once: these carry nothing, but reach the sign.
  static Int Add(Int a, Int b) {
    return reinterpret_cast<Int>(reinterpret_cast<Portable::Bits>(a) +
                                 reinterpret_cast<Portable::Bits>(b));
  }
  template <int bits>
  static Int ShiftLeft(Int x) {
    return x << bits;
  }
  static Int LowHalves(Int x) { return x & 0x0F0F0F0F; }
  static Int HighHalves(Int x) { return LowHalves(x >> 4); }
  static Int Dot(Int sum, Int codes, const Quad& x) {
    return sum + PairSums(codes, x.even) + PairSums(codes >> 8, x.odd);
  }
  static V::Reg ToFloat(Int x) { return __builtin_convertvector(x, V::Reg); }
  // Bits that are shifted into place are too small by a power of two, of
  // subnormals as well.
  static V::Reg LoadF16(const std::byte* p) {
    uint16_t halves[kLanes];
    std::memcpy(halves, p, sizeof(halves));
    Portable::Bits size, sign;
    for (int i = 0; i < kLanes; ++i) {
      size[i] = (halves[i] & 0x7FFFu) << 13;
      sign[i] = (halves[i] & 0x8000u) << 16;
    }
    const Portable::Bits finite = reinterpret_cast<Portable::Bits>(
        reinterpret_cast<V::Reg>(size) * V::Set(0x1p112f));
    const Portable::Bits infinity = size >= 0x7C00u << 13;
    return reinterpret_cast<V::Reg>(finite | sign | (infinity & 0x7F800000u));
  }
  // As other backends round it.
  static V::Reg MulAdd(V::Reg a, V::Reg b, V::Reg c) {
    for (int i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
  }

 private:
  // Multiplies the even bytes, unsigned, by 16 bits: results are below 2^15.
  static Int PairSums(Int codes, Int x) {
    using Shorts = int16_t __attribute__((vector_size(16)));
    const Int products =
        reinterpret_cast<Int>(reinterpret_cast<Shorts>(codes & 0x00FF00FF) *
                              reinterpret_cast<Shorts>(x));
    return (products << 16 >> 16) + (products >> 16);
  }
};

void LinearAnyOperand(const LinearArgs& a) {
  IsBlocks(a.operand) ? LinearOfBlocks<PortableInts>(a) : Linear<Portable>(a);
}

}  // namespace

const Kernels& PortableKernels() {
  static constexpr Kernels kKernels = {
      .name = "portable",
      .exact_operand = OperandType::kFloat32,
      .fast_operand = OperandType::kFloat32,
      .prepare = PrepareRowBlocks<PlainBlocks>,
      .linear = LinearAnyOperand,
      .normalize = Normalize<Portable>,
      .rotate = Rotate<Portable>,
      .write_kv = WriteAnyKv,
      .copy_kv = CopyAnyKv,
      .attend = AttendAnyKv<Portable>,
      .attend_queries = 12,
      .attend_calls = 2,
      .peaks = Peaks<Portable>,
      .sum_exp = SumExp<Portable>,
      .noise_ceilings = NoiseCeilings<Portable>};
  return kKernels;
}

}  // namespace espalier::nn
