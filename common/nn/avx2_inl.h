// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_AVX2_INL_H_
#define ESPALIER_COMMON_NN_AVX2_INL_H_

#include <immintrin.h>

#include <cstdint>

#include "common/nn/kernels.h"
#include "common/nn/row_blocks_inl.h"

namespace espalier::nn {
namespace {

struct Avx2 {
  using Reg = __m256;
  using Words = uint64_t __attribute__((vector_size(32)));
  static constexpr int64_t kLanes = 8;
  static constexpr int kTileRows = 6;

  static Reg Set(float x) { return _mm256_set1_ps(x); }
  // Two numbers by turns.
  static Reg SetPair(const float* p) {
    double pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return _mm256_castpd_ps(_mm256_set1_pd(pair));
  }
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
  // kScaledCodes codes times their scales, as bf16.
  static constexpr int64_t kScaledCodes = 16;
  static void StoreScaled(const void* codes, const Reg* scales, void* out) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(codes));
    const __m256i low = Bf16Bits(_mm256_cvtepi8_epi32(bytes), scales[0]);
    const __m256i high =
        Bf16Bits(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)), scales[1]);
    // Packs within halves.
    const __m256i packed = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0));
    _mm256_storeu_si256(static_cast<__m256i*>(out), packed);
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
  // To the nearest, ties to even; what is no number has no other bits below.
  static __m256i Bf16Bits(__m256i codes, Reg scales) {
    const __m256i bits =
        _mm256_castps_si256(Mul(_mm256_cvtepi32_ps(codes), scales));
    const __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(
        _mm256_add_epi32(bits,
                         _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))),
        16);
  }
  static __m256i Pairs(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
};

// maddubs adds two products of an unsigned and a signed byte in 16 bits, where
// it saturates. Codes of 4 bits and of at most 127 are too small for that. Of
// signed ones the size takes the unsigned side, and the row the sign: at most
// 2 * 128 * 127.
struct Avx2Ints {
  using V = Avx2;
  using Int = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 2;
  static constexpr int kTileRows = 4;
  static constexpr int kHeldRows = 0;
  static constexpr bool kSignsCodes = true;

  template <bool kSigned>
  struct Codes {
    Codes() = default;
    explicit Codes(Int c) : codes(c) {}
    Int Times(Int x) const { return _mm256_maddubs_epi16(codes, x); }
    Int codes;
  };

  static Int Set(int32_t x) { return _mm256_set1_epi32(x); }
  static Int SetQuad(const int8_t* p) {
    int32_t quad;
    __builtin_memcpy(&quad, p, sizeof(quad));
    return _mm256_set1_epi32(quad);
  }
  static Int Load(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Int Add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  template <int bits>
  static Int ShiftLeft(Int x) {
    return _mm256_slli_epi32(x, bits);
  }
  static Int LowHalves(Int x) {
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
  }
  static Int HighHalves(Int x) { return LowHalves(_mm256_srli_epi16(x, 4)); }
  template <bool kSigned>
  static Int Dot(Int sum, const Codes<kSigned>& codes, Int x) {
    const Int pairs = codes.Times(x);
    return _mm256_add_epi32(sum,
                            _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static V::Reg ToFloat(Int x) { return _mm256_cvtepi32_ps(x); }
  static V::Reg LoadF16(const std::byte* p) {
    return _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V::Reg MulAdd(V::Reg a, V::Reg b, V::Reg c) {
    return _mm256_fmadd_ps(a, b, c);
  }
};

template <>
struct Avx2Ints::Codes<true> {
  Codes() = default;
  explicit Codes(Int c)
      : codes(_mm256_xor_si256(c, _mm256_set1_epi8(-128))),
        sizes(_mm256_abs_epi8(codes)) {}
  Int Times(Int x) const {
    return _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(x, codes));
  }
  Int codes;
  Int sizes;
};

struct Avx2Blocks {
  static uint32_t Peak(const float* x) {
    const __m256i size = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i peak = _mm256_setzero_si256();
    for (int64_t i = 0; i < kBlockInputs; i += 8) {
      const auto* const p = reinterpret_cast<const __m256i*>(x + i);
      peak =
          _mm256_max_epu32(peak, _mm256_and_si256(_mm256_loadu_si256(p), size));
    }
    return Largest(peak);
  }
  static void Round(const float* x, float steps, RowCodes& out, float* rest) {
    __m256i codes[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 scaled =
          _mm256_mul_ps(_mm256_loadu_ps(x + i * 8), _mm256_set1_ps(steps));
      codes[i] = _mm256_cvtps_epi32(scaled);
      if (rest != nullptr) {
        _mm256_storeu_ps(rest + i * 8,
                         _mm256_sub_ps(scaled, _mm256_cvtepi32_ps(codes[i])));
      }
    }
    // These pack within halves of the registers.
    const __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(codes[0], codes[1]),
                           _mm256_packs_epi32(codes[2], codes[3]));
    Store(_mm256_permutevar8x32_epi32(
              bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)),
          out);
  }

  static uint32_t Largest(__m256i sizes) {
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(sizes),
                                 _mm256_extracti128_si256(sizes, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xB1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
  }
  // The codes, in order, and the sums of both halves.
  static void Store(__m256i codes, RowCodes& out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.codes), codes);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
    __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4E));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xB1));
    out.half_sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums));
    out.half_sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sums, 1));
  }
};

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_AVX2_INL_H_
