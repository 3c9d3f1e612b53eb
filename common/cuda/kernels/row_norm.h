#ifndef ESPALIER_COMMON_CUDA_KERNELS_ROW_NORM_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ROW_NORM_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

// A block for a row, which its threads keep in registers: quads of numbers that
// follow each other, a block's width apart. So all loads of a thread are under
// way at once, and the block needs no room beside the product's before it.
using Quad = Vector<float, 4>;

// A thread has 1, 2, 4, 8 or 16 quads.
static_assert(kMaxNormColumns <= 16 * 4 * kMaxNormThreads);

ESPALIER_HOST_DEVICE constexpr int NormThreads(int columns,
                                               int most = kMaxNormThreads) {
  const int warps = (columns + 127) / 128;
  return warps < most / 32 ? warps * 32 : most;
}
constexpr int NormQuads(int columns) {
  int quads = 1;
  while (4 * quads * NormThreads(columns) < columns) quads *= 2;
  return quads;
}

// act(k, i): quad k of this thread, whose first number is i. kMaxThreads:
// threads of a block, as those of NormThreads.
template <int kQuads, int kMaxThreads = kMaxNormThreads, typename Act>
DEVICE void ForQuads(int columns, Act act) {
#pragma unroll
  for (int k = 0; k < kQuads; ++k) {
    const int i = 4 * (threadIdx.x + k * NormThreads(columns, kMaxThreads));
    if (i < columns) act(k, i);
  }
}

DEVICE Vector<uint32_t, 2> RoundedQuad(const Quad& quad) {
  return {{PackBf16(quad.of[0], quad.of[1]), PackBf16(quad.of[2], quad.of[3])}};
}

DEVICE float SumOfSquares(const Quad& quad, float sum) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = fmaf(quad.of[i], quad.of[i], sum);
  return sum;
}

DEVICE float WarpSum(float sum) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(~0u, sum, lanes);
  }
  return sum;
}

// Returns the factor of the row's norm, for all threads. `sum`: of the squares
// that this thread has seen. `sums`: of each warp, in shared memory.
template <int kMaxThreads = kMaxNormThreads>
DEVICE float NormFactor(float sum, float* sums, int columns, float epsilon) {
  const int lane = threadIdx.x % 32;
  sum = WarpSum(sum);
  if (lane == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  const float total =
      WarpSum(lane < NormThreads(columns, kMaxThreads) / 32 ? sums[lane] : 0);
  return InverseSqrt(total / static_cast<float>(columns) + epsilon);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ROW_NORM_H_
