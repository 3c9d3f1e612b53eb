#ifndef ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kTakeThreads = 256, kTakeWarps = kTakeThreads / 32;
inline int TakeRowsShared(const TakeRowsArgs& args) {
  return (args.columns + kTakeWarps) * static_cast<int>(sizeof(float));
}

// A number of what a row is taken from.
DEVICE float TakenFrom(const TakeRowsArgs& args, int64_t from_row, int i) {
  const int64_t at = from_row * args.columns + i;
  if (args.from != nullptr) return args.from[at];
  return args.from_bits == nullptr ? 0 : FromBf16(args.from_bits[at]);
}

// The factor of the norm of a row whose squares sum up to the warps' sums.
DEVICE float NormFactor(const TakeRowsArgs& args, const float* sums) {
  float total = 0;
  for (int warp = 0; warp < kTakeWarps; ++warp) total += sums[warp];
  return InverseSqrt(total / static_cast<float>(args.columns) + args.epsilon);
}

// Grid: rows. Shared memory: the row, and a sum of each warp.
__global__ void __launch_bounds__(kTakeThreads)
    TakeRows(const __grid_constant__ TakeRowsArgs args) {
  SHARED_MEMORY(shared);
  float* const values = reinterpret_cast<float*>(shared);
  float* const sums = values + args.columns;
  DependentsMayLaunch();
  WaitForPrevious();
  const int row = blockIdx.x;
  const int64_t from_row =
      args.from_rows == nullptr ? row : args.from_rows[row];
  float sum = 0;
  for (int i = threadIdx.x; i < args.columns; i += kTakeThreads) {
    const float value =
        AddParts(args.parts, row, i, TakenFrom(args, from_row, i));
    values[i] = value;
    sum = fmaf(value, value, sum);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(~0u, sum, lanes);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();

  const int piece = row % args.pieces;
  const float* const weight =
      args.weight == nullptr ? nullptr : args.weight + piece * args.columns;
  const float scale = weight == nullptr ? 1 : NormFactor(args, sums);
  const int64_t to_row = args.to_rows == nullptr ? row : args.to_rows[row];
  for (int i = 2 * threadIdx.x; i < args.columns; i += 2 * kTakeThreads) {
    const float a = values[i], b = values[i + 1];
    const float normed_a = weight == nullptr ? a : a * scale * weight[i];
    const float normed_b = weight == nullptr ? b : b * scale * weight[i + 1];
    const int64_t at = to_row * args.columns + i;
    if (args.sums != nullptr && to_row >= 0) {
      args.sums[at] = a;
      args.sums[at + 1] = b;
    }
    if (args.normed != nullptr && to_row >= 0) {
      args.normed[at] = normed_a;
      args.normed[at + 1] = normed_b;
    }
    if (args.out == nullptr) continue;
    const uint64_t place =
        ActivationPlace(args.out_block, args.out_columns,
                        args.first_out_row + row / args.pieces,
                        args.first_out_column + piece * args.columns + i);
    *reinterpret_cast<uint32_t*>(args.out + place) =
        PackBf16(normed_a, normed_b);
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_
