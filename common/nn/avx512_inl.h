// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_AVX512_INL_H_
#define ESPALIER_COMMON_NN_AVX512_INL_H_

#include <immintrin.h>

#include <cstdint>

#include "common/nn/attention_inl.h"
#include "common/nn/avx2_inl.h"
#include "common/nn/kernels.h"

namespace espalier::nn {
namespace {

struct Avx512 {
  using Reg = __m512;
  using Words = uint64_t __attribute__((vector_size(64)));
  static constexpr int64_t kLanes = 16;
  static constexpr int kTileRows = 12;

  static Reg Set(float x) { return _mm512_set1_ps(x); }
  static Reg Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Reg x) { _mm512_storeu_ps(p, x); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg Min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Reg Max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  static Reg MulAdd(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg Round(Reg x) {
    return _mm512_roundscale_ps(x,
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // 2^n of whole numbers -126 .. 127.
  static Reg Pow2(Reg n) { return _mm512_scalef_ps(_mm512_set1_ps(1.0f), n); }
  static float Total(Reg x) { return _mm512_reduce_add_ps(x); }
  static float Largest(Reg x) { return _mm512_reduce_max_ps(x); }
  // The low halves, multiplied in full.
  static Words MulLow(Words a, Words b) {
    return reinterpret_cast<Words>(_mm512_mul_epu32(
        reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
  static Reg LowBf16(const uint32_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(Pairs(p), 16));
  }
  static Reg HighBf16(const uint32_t* p) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(Pairs(p), _mm512_set1_epi32(-65536)));
  }

 private:
  static __m512i Pairs(const uint32_t* p) { return _mm512_loadu_si512(p); }
};

void StoreBf16(uint16_t* p, __m256bh x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      reinterpret_cast<__m256i>(x));
}

// What rounding to bf16 took off; 0 where nothing finite is left to take.
__m512 RoundingLoss(__m512 x, __m256bh rounded) {
  constexpr int kNanOrInfinity = 0x99;  // of vfpclassps
  const __m512 wide = _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(rounded)), 16));
  return _mm512_maskz_sub_ps(
      static_cast<__mmask16>(~_mm512_fpclass_ps_mask(wide, kNanOrInfinity)), x,
      wide);
}

void PrepareBf16(const PrepareArgs& a) {
  const bool split = a.type == OperandType::kSplitBf16;
  const int64_t padded = PaddedInputs(a.inputs);
  uint16_t* const out = static_cast<uint16_t*>(a.out);
  for (int64_t i = 0; i < padded; i += Avx512::kLanes) {
    const int64_t left = a.inputs - i;
    const __mmask16 mask = left >= Avx512::kLanes ? 0xFFFF
                           : left > 0 ? static_cast<__mmask16>((1 << left) - 1)
                                      : 0;
    const __m512 x = _mm512_maskz_loadu_ps(mask, a.x + i);
    const __m256bh rounded = _mm512_cvtneps_pbh(x);
    StoreBf16(out + i, rounded);
    if (!split) continue;
    StoreBf16(out + padded + i, _mm512_cvtneps_pbh(RoundingLoss(x, rounded)));
  }
}

void AttendAnyHead(const AttendArgs& a) {
  a.head_dim % Avx512::kLanes == 0 ? Attend<Avx512>(a) : Attend<Avx2>(a);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_AVX512_INL_H_
