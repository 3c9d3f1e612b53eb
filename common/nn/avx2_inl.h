// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_AVX2_INL_H_
#define ESPALIER_COMMON_NN_AVX2_INL_H_

#include <immintrin.h>

#include <cstdint>

namespace espalier::nn {
namespace {

struct Avx2 {
  using Reg = __m256;
  using Words = uint64_t __attribute__((vector_size(32)));
  static constexpr int64_t kLanes = 8;
  static constexpr int kTileRows = 6;

  static Reg Set(float x) { return _mm256_set1_ps(x); }
  static Reg Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, Reg x) { _mm256_storeu_ps(p, x); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg Min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Reg Max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg MulAdd(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg Round(Reg x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // x minus the whole number next to it.
  static Reg Fraction(Reg x) { return Sub(x, Round(x)); }
  // x 2^n for whole numbers n of -126 .. 127.
  static Reg Scale(Reg x, Reg n) {
    const __m256i exponent =
        _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return Mul(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  }
  // Zero from lane n on.
  static Reg KeepFirst(Reg x, int64_t n) {
    const __m256i kept =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                           _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_and_ps(x, _mm256_castsi256_ps(kept));
  }
  static float Total(Reg x) {
    const __m128 four =
        _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static float Largest(Reg x) {
    const __m128 four =
        _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  // The low halves, multiplied in full.
  static Words MulLow(Words a, Words b) {
    return reinterpret_cast<Words>(_mm256_mul_epu32(
        reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  static Reg LowBf16(const uint32_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(Pairs(p), 16));
  }
  // Two shifts, not a mask: the register tile leaves none to hold the mask.
  static Reg HighBf16(const uint32_t* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_srli_epi32(Pairs(p), 16), 16));
  }

 private:
  static __m256i Pairs(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
};

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_AVX2_INL_H_
