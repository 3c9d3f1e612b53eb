#ifndef ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/kernels/row_norm.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

// Numbers of what a row is taken from.
DEVICE Quad TakenFrom(const TakeRowsArgs& args, int64_t from_row, int i) {
  const int64_t at = from_row * args.columns + i;
  if (args.from != nullptr) return LoadVector<4>(args.from + at);
  if (args.from_bits == nullptr) return {{0, 0, 0, 0}};
  const auto bits = LoadVector<4>(args.from_bits + at);
  return {{FromBf16(bits.of[0]), FromBf16(bits.of[1]), FromBf16(bits.of[2]),
           FromBf16(bits.of[3])}};
}

// Writes a quad of a row to its place. Called by a thread.
DEVICE void WriteTaken(const TakeRowsArgs& args, int row, int64_t to_row, int i,
                       const Quad& value, const Quad& normed) {
  const int64_t at = to_row * args.columns + i;
  if (args.sums != nullptr && to_row >= 0) StoreVector(args.sums + at, value);
  if (args.normed != nullptr && to_row >= 0) {
    StoreVector(args.normed + at, normed);
  }
  if (args.out == nullptr) return;
  const uint64_t place = ActivationPlace(
      args.out_block, args.out_columns, args.first_out_row + row / args.pieces,
      args.first_out_column + row % args.pieces * args.columns + i);
  StoreVector(reinterpret_cast<uint32_t*>(args.out + place),
              RoundedQuad(normed));
}

// Grid: rows. Threads: NormThreads. Shared memory: a sum for each warp.
template <int kQuads>
__global__ void __launch_bounds__(kMaxNormThreads, 1)
    TakeRows(const __grid_constant__ TakeRowsArgs args) {
  SHARED_MEMORY(shared);
  DependentsMayLaunch();
  WaitForPrevious();
  const int row = blockIdx.x;
  const int64_t from_row =
      args.from_rows == nullptr ? row : args.from_rows[row];
  Quad values[kQuads] = {};
  float sum = 0;
  ForQuads<kQuads>(args.columns, [&](int k, int i) {
    values[k] = TakenFrom(args, from_row, i);
    AddParts(args.parts, row, i, values[k]);
    sum = SumOfSquares(values[k], sum);
  });
  const float factor = NormFactor(sum, reinterpret_cast<float*>(shared),
                                  args.columns, args.epsilon);

  const float* const weight =
      args.weight == nullptr ? nullptr
                             : args.weight + row % args.pieces * args.columns;
  const int64_t to_row = args.to_rows == nullptr ? row : args.to_rows[row];
  ForQuads<kQuads>(args.columns, [&](int k, int i) {
    Quad normed = values[k];
    if (weight != nullptr) {
      const Quad of = LoadVector<4>(weight + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        normed.of[j] = normed.of[j] * factor * of.of[j];
      }
    }
    WriteTaken(args, row, to_row, i, values[k], normed);
  });
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_TAKE_ROWS_H_
