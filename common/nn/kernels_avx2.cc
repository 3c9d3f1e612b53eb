// Compiled with -mavx2 -mfma -mf16c.
#include "common/nn/attention_int8_inl.h"
#include "common/nn/avx2_inl.h"
#include "common/nn/blocks_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/reduce_inl.h"
#include "common/nn/row_blocks_inl.h"
#include "common/nn/row_kernels_inl.h"

namespace espalier::nn {
namespace {

void LinearAnyOperand(const LinearArgs& a) {
  IsBlocks(a.operand) ? LinearOfBlocks<Avx2Ints>(a) : Linear<Avx2>(a);
}

}  // namespace

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels = {.name = "avx2",
                                       .exact_operand = OperandType::kFloat32,
                                       .fast_operand = OperandType::kFloat32,
                                       .prepare = PrepareRowBlocks<Avx2Blocks>,
                                       .linear = LinearAnyOperand,
                                       .normalize = Normalize<Avx2>,
                                       .rotate = Rotate<Avx2>,
                                       .write_kv = WriteAnyKv,
                                       .copy_kv = CopyAnyKv,
                                       .attend = AttendAnyKv<Avx2>,
                                       .attend_queries = 12,
                                       .attend_calls = 2,
                                       .peaks = Peaks<Avx2>,
                                       .sum_exp = SumExp<Avx2>,
                                       .noise_ceilings = NoiseCeilings<Avx2>};
  return kKernels;
}

}  // namespace espalier::nn
