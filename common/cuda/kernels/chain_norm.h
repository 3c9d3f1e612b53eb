#ifndef ESPALIER_COMMON_CUDA_KERNELS_CHAIN_NORM_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CHAIN_NORM_H_

#include "common/cuda/kernels/chain_rings.h"
#include "common/cuda/kernels/residual_norm.h"

namespace espalier::cuda {
namespace {

// The row's numbers as ResidualNorm has them: a worker stands for one or two of
// its threads, so that sums have the same order.
struct ChainRow {
  static constexpr int kThreads = 2, kQuads = 4;
  static_assert(kThreads * kChainWorkers >= kMaxNormThreads);
  static_assert(4 * kQuads * kMaxNormThreads >= kMaxChainColumns);

  Quad quads[kThreads][kQuads];

  // act(t, k, i): quad k of the thread t, whose first number is i.
  template <typename Act>
  static DEVICE void ForQuadsOf(int t, int columns, Act act) {
    const int threads = NormThreads(columns);
    const int thread = threadIdx.x + t * kChainWorkers;
#pragma unroll
    for (int k = 0; k < kQuads; ++k) {
      const int i = 4 * (thread + k * threads);
      if (thread < threads && i < columns) act(k, i);
    }
  }
};

// Adds the parts to a row and normalizes it. `sums`: one for each warp of
// ResidualNorm, not those of the row before. Called by all workers.
DEVICE void NormRow(const ResidualNormArgs& args, int row, float* sums) {
  const int lane = threadIdx.x % 32, warps = NormThreads(args.hidden) / 32;
  float* const x = args.x + int64_t{row} * args.hidden;
  ChainRow values;
#pragma unroll
  for (int t = 0; t < ChainRow::kThreads; ++t) {
    float sum = 0;
    ChainRow::ForQuadsOf(t, args.hidden, [&](int k, int i) {
      Quad& quad = values.quads[t][k];
      quad = LoadVector<4>(x + i);
      AddParts(args.parts, row, i, quad);
      sum = SumOfSquares(quad, sum);
    });
    const int warp = (threadIdx.x + t * kChainWorkers) / 32;
    sum = WarpSum(sum);
    if (lane == 0 && warp < warps) sums[warp] = sum;
  }
  NamedSync(1, kChainWorkers);
  const float total = WarpSum(lane < warps ? sums[lane] : 0);
  const float scale =
      InverseSqrt(total / static_cast<float>(args.hidden) + args.epsilon);
#pragma unroll
  for (int t = 0; t < ChainRow::kThreads; ++t) {
    ChainRow::ForQuadsOf(t, args.hidden, [&](int k, int i) {
      const Quad& quad = values.quads[t][k];
      const Quad weight = LoadVector<4>(args.weight + i);
      StoreVector(x + i, quad);
      Quad normed;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        normed.of[j] = quad.of[j] * scale * weight.of[j];
      }
      const int out_row = args.out_rows == nullptr ? row : args.out_rows[row];
      WriteNormed(args, row, out_row, i, quad, normed);
    });
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CHAIN_NORM_H_
