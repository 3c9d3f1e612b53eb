// Compiled with AVX-512 F, BW, DQ, VL and BF16.
#include "common/nn/avx512_inl.h"
#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/reduce_inl.h"
#include "common/nn/row_kernels_inl.h"

namespace espalier::nn {
namespace {

// Rows of bf16 pairs with pairs of weights: vdpbf16ps.
struct PairTile {
  static constexpr int kVectors = kPanelOutputs / Avx512::kLanes;

  template <int R>
  static void Run(const TileArgs& t) {
    Sums<Avx512, R, kVectors> sums(t);
    const uint32_t* x = static_cast<const uint32_t*>(t.x);
    const uint32_t* w = static_cast<const uint32_t*>(t.weights);
    const void* next = t.next;
    for (int64_t pair = 0; pair < PaddedInputs(t.inputs) / 2; ++pair) {
      FetchStep<Avx512, kVectors>(next);
      ESPALIER_UNROLL
      for (int n = 0; n < kVectors; ++n) {
        const __m512bh weights = Load(w + n * Avx512::kLanes);
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

TileChoice ChoosePairTile(int64_t rows) {
  return {TileFor<PairTile, Avx512::kTileRows>(rows), kPanelOutputs};
}

void LinearAnyOperand(const LinearArgs& a) {
  if (a.operand == OperandType::kBf16) {
    LinearByTiles<Avx512>(a, ChoosePairTile);
  } else {
    Linear<Avx512>(a);
  }
}

}  // namespace

// Of exact operands there would be two products: multiply-adds of float32 are
// as fast as these.
const Kernels& Avx512Bf16Kernels() {
  static constexpr Kernels kKernels = {.name = "avx512-bf16",
                                       .exact_operand = OperandType::kFloat32,
                                       .fast_operand = OperandType::kBf16,
                                       .prepare = PrepareBf16,
                                       .linear = LinearAnyOperand,
                                       .normalize = Normalize<Avx512>,
                                       .rotate = Rotate<Avx512>,
                                       .write_kv = WriteKv,
                                       .copy_kv = CopyKv,
                                       .attend = AttendAnyHead,
                                       .attend_queries = 12,
                                       .peaks = Peaks<Avx512>,
                                       .sum_exp = SumExp<Avx512>,
                                       .noise_ceilings = NoiseCeilings<Avx512>};
  return kKernels;
}

}  // namespace espalier::nn
