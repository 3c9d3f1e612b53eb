#ifndef ESPALIER_COMMON_CUDA_KERNELS_RESIDUAL_NORM_H_
#define ESPALIER_COMMON_CUDA_KERNELS_RESIDUAL_NORM_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/kernels/row_norm.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

// Grid: rows. Shared memory: RowNormShared.
__global__ void __launch_bounds__(kNormThreads)
    ResidualNorm(const __grid_constant__ ResidualNormArgs args) {
  SHARED_MEMORY(shared);
  float* const values = reinterpret_cast<float*>(shared);
  float* const sums = values + args.hidden;
  DependentsMayLaunch();
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  float* const x = args.x + row * args.hidden;
  float sum = 0;
  for (int i = threadIdx.x; i < args.hidden; i += kNormThreads) {
    const float value = AddParts(args.parts, row, i, x[i]);
    x[i] = value;
    values[i] = value;
    sum = fmaf(value, value, sum);
  }
  const float scale = NormFactor(sum, sums, args.hidden, args.epsilon);

  const int out_row = args.out_rows == nullptr ? row : args.out_rows[row];
  for (int i = 2 * threadIdx.x; i < args.hidden; i += 2 * kNormThreads) {
    const float a = values[i], b = values[i + 1];
    const uint32_t normed =
        PackBf16(a * scale * args.weight[i], b * scale * args.weight[i + 1]);
    const int64_t at = row * args.hidden + i;
    if (args.out != nullptr && out_row >= 0) {
      *reinterpret_cast<uint32_t*>(
          args.out + ActivationPlace(args.out_block, args.hidden, out_row, i)) =
          normed;
    }
    if (args.tap != nullptr) {
      *reinterpret_cast<uint32_t*>(args.tap + at) = PackBf16(a, b);
    }
    if (args.normed_tap != nullptr) {
      *reinterpret_cast<uint32_t*>(args.normed_tap + at) = normed;
    }
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_RESIDUAL_NORM_H_
