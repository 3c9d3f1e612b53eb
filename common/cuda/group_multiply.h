// Products of a warpgroup (wgmma), each as wide as a block of rows: a tile of
// weights is read from shared memory once for all of them.
#ifndef ESPALIER_COMMON_CUDA_GROUP_MULTIPLY_H_
#define ESPALIER_COMMON_CUDA_GROUP_MULTIPLY_H_

#include "common/cuda/tensor_core.h"

namespace espalier::cuda {
namespace {

// Rows of one instruction: those of the blocks of rows of products.
template <int kN>
inline constexpr bool kIsGroupWidth =
    kN == 16 || kN == 32 || kN == 64 || kN == 80 || kN == 128 || kN == 144 ||
    kN == 256;

#if defined(__CUDACC__)

// Places of an instruction's operands, and the registers for them.
#define ESPALIER_P8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define ESPALIER_P16 ESPALIER_P8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define ESPALIER_P32 \
  ESPALIER_P16       \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define ESPALIER_P40 ESPALIER_P32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define ESPALIER_P64                                                      \
  ESPALIER_P40                                                            \
  ",%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
  "%57,%58,%59,%60,%61,%62,%63"
#define ESPALIER_P72 ESPALIER_P64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define ESPALIER_P128                                                     \
  ESPALIER_P72                                                            \
  ",%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88," \
  "%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104," \
  "%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,"     \
  "%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define ESPALIER_S4(i) \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define ESPALIER_S8(i) ESPALIER_S4(i), ESPALIER_S4(i + 4)
#define ESPALIER_S16(i) ESPALIER_S8(i), ESPALIER_S8(i + 8)
#define ESPALIER_S32(i) ESPALIER_S16(i), ESPALIER_S16(i + 16)
#define ESPALIER_S40(i) ESPALIER_S32(i), ESPALIER_S8(i + 32)
#define ESPALIER_S64(i) ESPALIER_S32(i), ESPALIER_S32(i + 32)
#define ESPALIER_S72(i) ESPALIER_S64(i), ESPALIER_S8(i + 64)
#define ESPALIER_S128(i) ESPALIER_S64(i), ESPALIER_S64(i + 64)

// One instruction of n rows, whose sums take n / 2 registers of a thread.
// `factors`: the places of a and b, and what their formats are.
#define ESPALIER_GROUP_MULTIPLY(n, sums_of_thread, factors, ...)              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n                         \
               "k16.f32.bf16.bf16 {" ESPALIER_P##sums_of_thread "}, " factors \
                                                                ";"           \
               : ESPALIER_S##sums_of_thread(0)                                \
               : __VA_ARGS__)

#define ESPALIER_MULTIPLY(n, sums_of_thread, factors)                   \
  ESPALIER_GROUP_MULTIPLY(n, sums_of_thread, factors ", 1, 1, 1, 0, 0", \
                          "l"(a), "l"(b))
#define ESPALIER_MULTIPLY_HELD(n, sums_of_thread, factors)           \
  ESPALIER_GROUP_MULTIPLY(n, sums_of_thread, factors ", 1, 1, 1, 0", \
                          "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

#endif  // __CUDACC__

// sums[64 x kN] += a[64 x 16] b[kN x 16]^T. Begins; GroupWait ends it. Thread
// i's sums 4 j .. 4 j + 3 are those of Multiply16x8x16 in rows from 16 * (i /
// 32) and columns from 8 j.
template <int kN>
DEVICE void GroupMultiply(float* sums, uint64_t a, uint64_t b) {
  static_assert(kIsGroupWidth<kN>);
#if defined(__CUDACC__)
  if constexpr (kN == 16) {
    ESPALIER_MULTIPLY(16, 8, "%8, %9");
  } else if constexpr (kN == 32) {
    ESPALIER_MULTIPLY(32, 16, "%16, %17");
  } else if constexpr (kN == 64) {
    ESPALIER_MULTIPLY(64, 32, "%32, %33");
  } else if constexpr (kN == 80) {
    ESPALIER_MULTIPLY(80, 40, "%40, %41");
  } else if constexpr (kN == 128) {
    ESPALIER_MULTIPLY(128, 64, "%64, %65");
  } else if constexpr (kN == 144) {
    ESPALIER_MULTIPLY(144, 72, "%72, %73");
  } else {
    ESPALIER_MULTIPLY(256, 128, "%128, %129");
  }
#else
  Block::Current().warpgroup().Multiply(threadIdx.x % 128, a, b, kN, sums);
#endif
}

// Multiplies with `a` in registers: each warp holds those of Multiply16x8x16,
// for the rows from 16 * (i / 32). They must not change before the wait.
template <int kN>
DEVICE void GroupMultiplyHeld(float* sums, const uint32_t (&a)[4], uint64_t b) {
  static_assert(kIsGroupWidth<kN>);
#if defined(__CUDACC__)
  if constexpr (kN == 16) {
    ESPALIER_MULTIPLY_HELD(16, 8, "{%8,%9,%10,%11}, %12");
  } else if constexpr (kN == 32) {
    ESPALIER_MULTIPLY_HELD(32, 16, "{%16,%17,%18,%19}, %20");
  } else if constexpr (kN == 64) {
    ESPALIER_MULTIPLY_HELD(64, 32, "{%32,%33,%34,%35}, %36");
  } else if constexpr (kN == 80) {
    ESPALIER_MULTIPLY_HELD(80, 40, "{%40,%41,%42,%43}, %44");
  } else if constexpr (kN == 128) {
    ESPALIER_MULTIPLY_HELD(128, 64, "{%64,%65,%66,%67}, %68");
  } else if constexpr (kN == 144) {
    ESPALIER_MULTIPLY_HELD(144, 72, "{%72,%73,%74,%75}, %76");
  } else {
    ESPALIER_MULTIPLY_HELD(256, 128, "{%128,%129,%130,%131}, %132");
  }
#else
  Block::Current().warpgroup().MultiplyHeld(threadIdx.x % 128, a, b, kN, sums);
#endif
}

#if defined(__CUDACC__)
#undef ESPALIER_P8
#undef ESPALIER_P16
#undef ESPALIER_P32
#undef ESPALIER_P40
#undef ESPALIER_P64
#undef ESPALIER_P72
#undef ESPALIER_P128
#undef ESPALIER_S4
#undef ESPALIER_S8
#undef ESPALIER_S16
#undef ESPALIER_S32
#undef ESPALIER_S40
#undef ESPALIER_S64
#undef ESPALIER_S72
#undef ESPALIER_S128
#undef ESPALIER_GROUP_MULTIPLY
#undef ESPALIER_MULTIPLY
#undef ESPALIER_MULTIPLY_HELD
#endif

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_GROUP_MULTIPLY_H_
