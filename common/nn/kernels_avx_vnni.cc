// Compiled with -mavx2 -mfma -mf16c -mavxvnni.
#include "common/nn/attention_bf16_inl.h"
#include "common/nn/avx2_inl.h"
#include "common/nn/blocks_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/reduce_inl.h"
#include "common/nn/row_blocks_inl.h"
#include "common/nn/row_kernels_inl.h"

namespace espalier::nn {
namespace {

// As Avx512Ints, with half the lanes.
struct AvxVnniInts : Avx2Ints {
  static constexpr bool kSignsCodes = false;

  template <bool kSigned>
  using Codes = Avx2Ints::Codes<false>;

  static Int Dot(Int sum, const Avx2Ints::Codes<false>& codes, Int x) {
    return _mm256_dpbusd_avx_epi32(sum, codes.codes, x);
  }
};

void LinearAnyOperand(const LinearArgs& a) {
  a.operand == OperandType::kBlocks ? LinearOfBlocks<AvxVnniInts>(a)
                                    : Linear<Avx2>(a);
}

}  // namespace

const Kernels& AvxVnniKernels() {
  static constexpr Kernels kKernels = {.name = "avx-vnni",
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
                                       .peaks = Peaks<Avx2>,
                                       .sum_exp = SumExp<Avx2>,
                                       .noise_ceilings = NoiseCeilings<Avx2>};
  return kKernels;
}

}  // namespace espalier::nn
