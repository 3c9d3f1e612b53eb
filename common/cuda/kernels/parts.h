#ifndef ESPALIER_COMMON_CUDA_KERNELS_PARTS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PARTS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

// Adds to `sums` what the experts of a row gave, from `output` on.
template <int kCount>
DEVICE void AddChoices(const Parts& parts, int64_t row, int output,
                       Vector<float, kCount>& sums) {
  for (int rank = 0; rank < parts.per_row; ++rank) {
    const ExpertChoice choice = parts.choices[row * parts.per_row + rank];
    const auto part = LoadVector<kCount>(
        parts.values + int64_t{choice.place} * parts.outputs + output);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums.of[i] = fmaf(choice.weight, part.of[i], sums.of[i]);
    }
  }
}

// Adds to `sums` the numbers of a row from `output` on, in the order of the
// parts. Few parts: all are asked for before the first is added.
template <int kCount>
DEVICE void AddParts(const Parts& parts, int64_t row, int output,
                     Vector<float, kCount>& sums) {
  if (parts.choices != nullptr) return AddChoices(parts, row, output, sums);
  const float* const first = parts.values + row * parts.outputs + output;
  const int64_t stride = int64_t{parts.padded_rows} * parts.outputs;
#pragma unroll 4
  for (int split = 0; split < parts.splits; ++split) {
    const auto part = LoadVector<kCount>(first + split * stride);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums.of[i] += part.of[i];
  }
  if (parts.bias == nullptr) return;
  const auto bias = LoadVector<kCount>(parts.bias + output);
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums.of[i] += bias.of[i];
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PARTS_H_
