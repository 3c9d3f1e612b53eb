// Compiled with -mavx2 -mfma -mf16c -mavxvnni.
#include "common/nn/avx2_inl.h"
#include "common/nn/blocks_inl.h"
#include "common/nn/kernels.h"

namespace espalier::nn {
namespace {

// As Avx512Ints, with half the lanes.
struct AvxVnniInts : Avx2Ints {
  static constexpr bool kSignsCodes = false;
  static constexpr int kTileRows = 6;  // a product takes one register less

  template <bool kSigned>
  using Codes = Avx2Ints::Codes<false>;

  static Int Dot(Int sum, const Avx2Ints::Codes<false>& codes, Int x) {
    return _mm256_dpbusd_avx_epi32(sum, codes.codes, x);
  }
};

void LinearAnyOperand(const LinearArgs& a) {
  IsBlocks(a.operand) ? LinearOfBlocks<AvxVnniInts>(a)
                      : Avx2Kernels().linear(a);
}

}  // namespace

// Only products of integers differ from AVX2's.
const Kernels& AvxVnniKernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = Avx2Kernels();
    kernels.name = "avx-vnni";
    kernels.linear = LinearAnyOperand;
    return kernels;
  }();
  return kKernels;
}

}  // namespace espalier::nn
