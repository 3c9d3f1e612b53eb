#ifndef ESPALIER_COMMON_CUDA_KERNELS_ROW_NORM_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ROW_NORM_H_

#include "common/cuda/device.h"

namespace espalier::cuda {
namespace {

// A block for a row, which it keeps in shared memory, with a sum of each warp
// after it.
inline constexpr int kNormThreads = 256, kNormWarps = kNormThreads / 32;
inline int RowNormShared(int columns) {
  return (columns + kNormWarps) * static_cast<int>(sizeof(float));
}

// The factor of the row's norm, for all threads. `sum`: of the squares that
// this thread has seen. What threads wrote to shared memory is there
// afterwards.
DEVICE float NormFactor(float sum, float* sums, int columns, float epsilon) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(~0u, sum, lanes);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int warp = 0; warp < kNormWarps; ++warp) total += sums[warp];
  return InverseSqrt(total / static_cast<float>(columns) + epsilon);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ROW_NORM_H_
