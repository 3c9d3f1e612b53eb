// Compiled with -mavx2 -mfma.
#include "common/nn/attention_inl.h"
#include "common/nn/avx2_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/reduce_inl.h"
#include "common/nn/row_kernels_inl.h"

namespace espalier::nn {

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels = {.name = "avx2",
                                       .exact_operand = OperandType::kFloat32,
                                       .fast_operand = OperandType::kFloat32,
                                       .prepare = nullptr,
                                       .linear = Linear<Avx2>,
                                       .normalize = Normalize<Avx2>,
                                       .rotate = Rotate<Avx2>,
                                       .write_kv = WriteKv,
                                       .copy_kv = CopyKv,
                                       .attend = Attend<Avx2>,
                                       .attend_queries = 12,
                                       .peaks = Peaks<Avx2>,
                                       .sum_exp = SumExp<Avx2>,
                                       .noise_ceilings = NoiseCeilings<Avx2>};
  return kKernels;
}

}  // namespace espalier::nn
