// Compiled with -mavx2 -mfma -mf16c -mavxvnni.
#include "common/nn/avx2_inl.h"
#include "common/nn/avx2_kernels_inl.h"
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

}  // namespace

const Kernels& AvxVnniKernels() {
  static constexpr Kernels kKernels = KernelsOfAvx2<AvxVnniInts>("avx-vnni");
  return kKernels;
}

}  // namespace espalier::nn
