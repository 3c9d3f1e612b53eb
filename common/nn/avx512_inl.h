// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_AVX512_INL_H_
#define ESPALIER_COMMON_NN_AVX512_INL_H_

#include <immintrin.h>

#include <cstdint>

#include "common/nn/attention_int8_inl.h"
#include "common/nn/avx2_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/row_blocks_inl.h"

namespace espalier::nn {
namespace {

void StoreBf16(void* p, __m256bh x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), reinterpret_cast<__m256i>(x));
}

struct Avx512 {
  using Reg = __m512;
  using Words = uint64_t __attribute__((vector_size(64)));
  static constexpr int64_t kLanes = 16;
  static constexpr int kTileRows = 12;

  static Reg Set(float x) { return _mm512_set1_ps(x); }
  // Two numbers by turns.
  static Reg SetPair(const float* p) {
    double pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return _mm512_castpd_ps(_mm512_set1_pd(pair));
  }
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
  // x minus the whole number next to it.
  static Reg Fraction(Reg x) {
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // x 2^n for whole numbers n of -126 .. 127.
  static Reg Scale(Reg x, Reg n) { return _mm512_scalef_ps(x, n); }
  // Zero from lane n on.
  static Reg KeepFirst(Reg x, int64_t n) {
    const uint32_t mask = n <= 0 ? 0 : n < kLanes ? (1u << n) - 1 : 0xFFFF;
    return _mm512_maskz_mov_ps(static_cast<__mmask16>(mask), x);
  }
  static float Total(Reg x) { return _mm512_reduce_add_ps(x); }
  static float Largest(Reg x) { return _mm512_reduce_max_ps(x); }
  // 32 positive numbers -> [2][32] bf16, see OperandType::kSplitBf16.
  static void StoreSplit(const Reg (&x)[2], void* out) {
    __m512i rounded[2], loss[2];
    for (int i = 0; i < 2; ++i) {
      rounded[i] = RoundToHigh(x[i]);
      const __m512i high =
          _mm512_and_si512(rounded[i], _mm512_set1_epi32(-65536));
      loss[i] = RoundToHigh(_mm512_sub_ps(x[i], _mm512_castsi512_ps(high)));
    }
    std::byte* const bytes = static_cast<std::byte*>(out);
    _mm512_storeu_si512(bytes, HighHalves(rounded));
    _mm512_storeu_si512(bytes + 64, HighHalves(loss));
  }
  // kScaledCodes codes times their scales, as bf16.
  static constexpr int64_t kScaledCodes = 32;
  static void StoreScaled(const void* codes, const Reg* scales, void* out) {
    const Reg low = _mm512_mul_ps(CodesAsFloats(codes, 0), scales[0]);
    const Reg high = _mm512_mul_ps(CodesAsFloats(codes, 1), scales[1]);
    _mm512_storeu_si512(
        out, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
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
  // The upper 16 bits are x rounded to bf16, for finite x.
  static __m512i RoundToHigh(Reg x) {
    return _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
  }
  static Reg CodesAsFloats(const void* codes, int64_t index) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
        _mm_loadu_si128(static_cast<const __m128i*>(codes) + index)));
  }
  // The upper 16 bits of each word, in order.
  static __m512i HighHalves(const __m512i (&words)[2]) {
    constexpr uint32_t kFirst = 1 | 3 << 16, kNext = 4 | 4 << 16;
    const __m512i index = _mm512_add_epi32(
        _mm512_set1_epi32(kFirst),
        _mm512_mullo_epi32(_mm512_set1_epi32(kNext),
                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                             11, 12, 13, 14, 15)));
    return _mm512_permutex2var_epi16(words[0], index, words[1]);
  }
  static __m512i Pairs(const uint32_t* p) { return _mm512_loadu_si512(p); }
};

// VNNI: four products of bytes are added to a 32-bit sum.
struct Avx512Ints {
  using V = Avx512;
  using Int = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  static constexpr int kTileRows = 8;
  static constexpr int kHeldRows = 6;
  static constexpr bool kSignsCodes = false;

  template <bool kSigned>
  struct Codes {
    Codes() = default;
    explicit Codes(Int c) : codes(c) {}
    Int codes;
  };

  static Int Set(int32_t x) { return _mm512_set1_epi32(x); }
  static Int SetQuad(const int8_t* p) {
    int32_t quad;
    __builtin_memcpy(&quad, p, sizeof(quad));
    return _mm512_set1_epi32(quad);
  }
  static Int Load(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void Store(std::byte* p, Int x) { _mm512_storeu_si512(p, x); }
  static Int Add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static Int AddBytes(Int a, Int b) { return _mm512_add_epi8(a, b); }
  template <int bits>
  static Int ShiftLeft(Int x) {
    return _mm512_slli_epi32(x, bits);
  }
  static Int LowHalves(Int x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(15));
  }
  static Int HighHalves(Int x) { return LowHalves(_mm512_srli_epi16(x, 4)); }
  template <bool kSigned>
  static Int Dot(Int sum, const Codes<kSigned>& codes, Int x) {
    return _mm512_dpbusd_epi32(sum, codes.codes, x);
  }
  static V::Reg ToFloat(Int x) { return _mm512_cvtepi32_ps(x); }
  static V::Reg LoadF16(const std::byte* p) {
    return _mm512_cvtph_ps(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static V::Reg MulAdd(V::Reg a, V::Reg b, V::Reg c) {
    return _mm512_fmadd_ps(a, b, c);
  }
};

// The codes of a block of a row, 8 bits each.
struct Avx512Codes {
  __m256i codes;
  __m256i quad_sums;  // of four codes each
};

// x * steps to the nearest, ties to even. `rest`, unless null: what that took
// off, exactly.
inline Avx512Codes RoundToCodes(const __m512 (&x)[2], __m512 steps,
                                __m512* rest) {
  __m128i codes[2];
  for (int half = 0; half < 2; ++half) {
    const __m512 scaled = _mm512_mul_ps(x[half], steps);
    const __m512i rounded = _mm512_cvtps_epi32(scaled);
    codes[half] = _mm512_cvtepi32_epi8(rounded);
    if (rest != nullptr) {
      rest[half] = _mm512_sub_ps(scaled, _mm512_cvtepi32_ps(rounded));
    }
  }
  const __m256i all = _mm256_set_m128i(codes[1], codes[0]);
  return {.codes = all,
          .quad_sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(),
                                           _mm256_set1_epi8(1), all)};
}

// Stores what SetSums sets, from the sums of four codes each.
inline void StoreSums(__m256i quad_sums, float scale, RowBlock& block) {
  // Both halves' sums, in all words of a half.
  __m256i sums = quad_sums;
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4E));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xB1));
  const __m256i swapped = _mm256_permute4x64_epi64(sums, 0x4E);
  // Words as RowBlock has them: -, both, both, first, second, first, second, -.
  __m256i words = _mm256_add_epi32(sums, swapped);
  words = _mm256_blend_epi32(words, sums, 0b01011000);
  words = _mm256_blend_epi32(words, swapped, 0b00100000);
  constexpr __mmask8 kScale = 1, kMinus = 0b01100100, kScaled = 0b00011010;
  const __m256 scales = _mm256_set1_ps(scale);
  __m256i out = _mm256_castps_si256(
      _mm256_maskz_mul_ps(kScaled, scales, _mm256_cvtepi32_ps(words)));
  out = _mm256_mask_sub_epi32(out, kMinus, _mm256_setzero_si256(), words);
  out = _mm256_mask_mov_epi32(out, kScale, _mm256_castps_si256(scales));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(&block.scale), out);
}

inline void StoreCodes(__m256i codes, int8_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), codes);
}

struct Avx512Blocks {
  static uint32_t Peak(const __m512 (&x)[2]) {
    const __m512i size = _mm512_set1_epi32(0x7FFFFFFF);
    const __m512i largest =
        _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x[0]), size),
                         _mm512_and_si512(_mm512_castps_si512(x[1]), size));
    return Avx2Blocks::Largest(
        _mm256_max_epu32(_mm512_castsi512_si256(largest),
                         _mm512_extracti64x4_epi64(largest, 1)));
  }
};

template <>
inline void RoundBlock<Avx512Blocks>(const float* x, RowBlock& block) {
  constexpr float kLargest = 127;
  const __m512 inputs[2] = {_mm512_loadu_ps(x),
                            _mm512_loadu_ps(x + kHalfInputs)};
  const float most = Most(Avx512Blocks::Peak(inputs));
  if (!(most > 0)) {
    StoreCodes(_mm256_setzero_si256(), block.codes);
    return SetSums(most / kLargest, 0, 0, block);
  }
  const Avx512Codes high =
      RoundToCodes(inputs, _mm512_set1_ps(kLargest / most), /*rest=*/nullptr);
  StoreCodes(high.codes, block.codes);
  StoreSums(high.quad_sums, most / kLargest, block);
}

template <>
inline void RoundBlock<Avx512Blocks>(const float* x, FineRowBlock& block) {
  constexpr float kLargest = 127, kSteps = kFineSteps;
  const __m512 inputs[2] = {_mm512_loadu_ps(x),
                            _mm512_loadu_ps(x + kHalfInputs)};
  const float most = Most(Avx512Blocks::Peak(inputs));
  if (!(most > 0)) {
    StoreCodes(_mm256_setzero_si256(), block.high.codes);
    StoreCodes(_mm256_setzero_si256(), block.low);
    return SetSums(most / kLargest / kSteps, 0, 0, block.high);
  }
  __m512 rest[2];
  const Avx512Codes high =
      RoundToCodes(inputs, _mm512_set1_ps(kLargest / most), rest);
  const Avx512Codes low =
      RoundToCodes(rest, _mm512_set1_ps(kSteps), /*rest=*/nullptr);
  StoreCodes(high.codes, block.high.codes);
  StoreCodes(low.codes, block.low);
  static_assert(kFineSteps == 1 << 7);
  StoreSums(
      _mm256_add_epi32(_mm256_slli_epi32(high.quad_sums, 7), low.quad_sums),
      most / kLargest / kSteps, block.high);
}

// Returns what rounding to bf16 took off; 0 where nothing finite is left to
// take.
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

inline void PrepareAny(const PrepareArgs& a) {
  IsBlocks(a.type) ? PrepareRowBlocks<Avx512Blocks>(a) : PrepareBf16(a);
}

// Rows of bf16 pairs with pairs of weights: vdpbf16ps.
template <typename V, int N>
struct PairTile {
  template <int R>
  static void Run(const TileArgs& t) {
    Sums<V, R, N> sums(t);
    const uint32_t* x = static_cast<const uint32_t*>(t.x);
    const uint32_t* w = static_cast<const uint32_t*>(t.weights);
    const void* next = t.next;
    for (int64_t pair = 0; pair < (t.inputs + 1) / 2; ++pair) {
      FetchStep<V, N>(next);
      ESPALIER_UNROLL
      for (int n = 0; n < N; ++n) {
        const __m512bh weights = Load(w + n * V::kLanes);
        ESPALIER_UNROLL
        for (int r = 0; r < R; ++r) {
          const __m512i rows =
              _mm512_set1_epi32(static_cast<int32_t>(x[r * t.x_stride + pair]));
          sums.sum[r][n] = _mm512_dpbf16_ps(
              sums.sum[r][n], reinterpret_cast<__m512bh>(rows), weights);
        }
      }
      w += t.weight_stride;
    }
    sums.Store(t);
  }

 private:
  static __m512bh Load(const uint32_t* p) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  }
};

// Queries and weights of attention, rounded to bf16 pairs.
struct PairRows {
  static constexpr int64_t kPerFloat = 2;

  template <int N>
  static Tile ChooseTile(int64_t rows) {
    return TileFor<PairTile<Avx512, N>, Avx512::kTileRows>(rows);
  }
  static void StoreQuery(const float* query, int64_t head_dim, float* out) {
    for (int64_t i = 0; i < head_dim; i += Avx512::kLanes) {
      StoreBf16(reinterpret_cast<std::byte*>(out) + i * 2,
                _mm512_cvtneps_pbh(Avx512::Load(query + i)));
    }
  }
  static void StoreWeights(const PageOf<Avx512>& weights, float* out) {
    StoreBf16(out, _mm512_cvtneps_pbh(weights[0]));
    StoreBf16(reinterpret_cast<std::byte*>(out) + 32,
              _mm512_cvtneps_pbh(weights[1]));
  }
};

// As RoundToBf16, 16 of them.
inline __m256i RoundToHalves(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded =
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded =
      _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

// WriteBf16Kv. REQUIRES: head_dim is a multiple of kLanes.
inline void WriteBf16KvByLanes(const KvPanels& page, int64_t slot,
                               const float* key, const float* value) {
  constexpr int64_t kLanes = Avx512::kLanes;
  KvPair* keys = reinterpret_cast<KvPair*>(page.keys) + slot;
  KvPair* const values =
      reinterpret_cast<KvPair*>(page.values) + slot / 2 * page.head_dim;
  const bool second = slot % 2 != 0;
  const __mmask32 halves = second ? 0xAAAAAAAA : 0x55555555;
  const __m128i shift = _mm_cvtsi32_si128(second ? 16 : 0);
  for (int64_t i = 0; i < page.head_dim; i += kLanes) {
    KvPair pairs[kLanes / 2];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs),
                        RoundToHalves(_mm512_loadu_ps(key + i)));
    for (const KvPair pair : pairs) {
      *keys = pair;
      keys += kPageTokens;
    }
    const __m512i words =
        _mm512_cvtepu16_epi32(RoundToHalves(_mm512_loadu_ps(value + i)));
    _mm512_mask_storeu_epi16(values + i, halves,
                             _mm512_sll_epi32(words, shift));
  }
}

inline void WriteKvByLanes(const KvPanels& page, int64_t slot, const float* key,
                           const float* value) {
  (page.type == KvType::kBf16 && page.head_dim % Avx512::kLanes == 0
       ? WriteBf16KvByLanes
       : WriteAnyKv)(page, slot, key, value);
}

inline void AttendAnyHead(const AttendArgs& a) {
  a.head_dim % Avx512::kLanes == 0 ? AttendAnyKv<Avx512, PairRows>(a)
                                   : AttendAnyKv<Avx2>(a);
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_AVX512_INL_H_
