// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
//
// The backends of 8 lanes. They differ in their products of integers only.
#ifndef ESPALIER_COMMON_NN_AVX2_KERNELS_INL_H_
#define ESPALIER_COMMON_NN_AVX2_KERNELS_INL_H_

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

// I: integers, see blocks_inl.h.
template <typename I>
void LinearAnyOperand(const LinearArgs& a) {
  IsBlocks(a.operand) ? LinearOfBlocks<I>(a) : Linear<Avx2>(a);
}

template <typename I>
constexpr Kernels KernelsOfAvx2(const char* name) {
  return {.name = name,
          .exact_operand = OperandType::kFloat32,
          .fast_operand = OperandType::kFloat32,
          .prepare = PrepareRowBlocks<Avx2Blocks>,
          .linear = LinearAnyOperand<I>,
          .normalize = Normalize<Avx2>,
          .rotate = Rotate<Avx2>,
          .write_kv = WriteAnyKv,
          .copy_kv = CopyAnyKv,
          .attend = AttendAnyKv<Avx2>,
          .attend_queries = 12,
          .peaks = Peaks<Avx2>,
          .sum_exp = SumExp<Avx2>,
          .noise_ceilings = NoiseCeilings<Avx2>};
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_AVX2_KERNELS_INL_H_
