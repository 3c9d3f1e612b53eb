#ifndef ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/kernels/row_norm.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

// A number of what a row is taken from.
DEVICE float TakenFrom(const TakeRowsArgs& args, int64_t from_row, int i) {
  const int64_t at = from_row * args.columns + i;
  if (args.from != nullptr) return args.from[at];
  return args.from_bits == nullptr ? 0 : FromBf16(args.from_bits[at]);
}

// Grid: rows. Shared memory: RowNormShared.
__global__ void __launch_bounds__(kNormThreads)
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
  for (int i = threadIdx.x; i < args.columns; i += kNormThreads) {
    const float value =
        AddParts(args.parts, row, i, TakenFrom(args, from_row, i));
    values[i] = value;
    sum = fmaf(value, value, sum);
  }
  const float factor = NormFactor(sum, sums, args.columns, args.epsilon);

  const int piece = row % args.pieces;
  const float* const weight =
      args.weight == nullptr ? nullptr : args.weight + piece * args.columns;
  const int64_t to_row = args.to_rows == nullptr ? row : args.to_rows[row];
  for (int i = 2 * threadIdx.x; i < args.columns; i += 2 * kNormThreads) {
    const float a = values[i], b = values[i + 1];
    const float normed_a = weight == nullptr ? a : a * factor * weight[i];
    const float normed_b = weight == nullptr ? b : b * factor * weight[i + 1];
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
