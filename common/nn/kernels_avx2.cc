// Compiled with -mavx2 -mfma -mf16c.
#include "common/nn/avx2_inl.h"
#include "common/nn/avx2_kernels_inl.h"
#include "common/nn/kernels.h"

namespace espalier::nn {

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels = KernelsOfAvx2<Avx2Ints>("avx2");
  return kKernels;
}

}  // namespace espalier::nn
