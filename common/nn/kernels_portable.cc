// For any CPU with 16-byte vectors or without: the compiler's own vectors.
#include <cstring>

#include "common/nn/attention_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/reduce_inl.h"
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

}  // namespace

const Kernels& PortableKernels() {
  static constexpr Kernels kKernels = {
      .name = "portable",
      .exact_operand = OperandType::kFloat32,
      .fast_operand = OperandType::kFloat32,
      .prepare = nullptr,
      .linear = Linear<Portable>,
      .normalize = Normalize<Portable>,
      .rotate = Rotate<Portable>,
      .write_kv = WriteKv,
      .copy_kv = CopyKv,
      .attend = Attend<Portable>,
      .attend_queries = 12,
      .peaks = Peaks<Portable>,
      .sum_exp = SumExp<Portable>,
      .noise_ceilings = NoiseCeilings<Portable>};
  return kKernels;
}

}  // namespace espalier::nn
