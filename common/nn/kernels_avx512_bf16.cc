// Compiled with AVX-512 F, BW, DQ, VL, VNNI and BF16.
#include "common/nn/avx512_inl.h"
#include "common/nn/blocks_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/reduce_inl.h"
#include "common/nn/row_kernels_inl.h"

namespace espalier::nn {
namespace {

TileChoice ChoosePairTile(int64_t rows) {
  return {TileFor<PairTile<Avx512, 2>, Avx512::kTileRows>(rows), kPanelOutputs};
}

void LinearAnyOperand(const LinearArgs& a) {
  switch (a.operand) {
    case OperandType::kBf16:
      return LinearByTiles<Avx512>(a, ChoosePairTile);
    case OperandType::kBlocks:
    case OperandType::kFineBlocks:
      return LinearOfBlocks<Avx512Ints>(a);
    default:
      return Linear<Avx512>(a);
  }
}

}  // namespace

// Exact operands would take two products, and multiply-adds of float32 are as
// fast as these.
const Kernels& Avx512Bf16Kernels() {
  static constexpr Kernels kKernels = {.name = "avx512-bf16",
                                       .exact_operand = OperandType::kFloat32,
                                       .fast_operand = OperandType::kBf16,
                                       .prepare = PrepareAny,
                                       .linear = LinearAnyOperand,
                                       .normalize = Normalize<Avx512>,
                                       .rotate = Rotate<Avx512>,
                                       .write_kv = WriteKvByLanes,
                                       .copy_kv = CopyAnyKv,
                                       .attend = AttendAnyHead,
                                       .attend_queries = 12,
                                       .attend_calls = 2,
                                       .peaks = Peaks<Avx512>,
                                       .sum_exp = SumExp<Avx512>,
                                       .noise_ceilings = NoiseCeilings<Avx512>};
  return kKernels;
}

}  // namespace espalier::nn
