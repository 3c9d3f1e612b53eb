#ifndef ESPALIER_COMMON_CUDA_KERNELS_PERTURB_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PERTURB_H_

#include "common/cuda/kernels/gumbel.h"

namespace espalier::cuda {
namespace {

inline constexpr int kPerturbThreads = 256;
inline constexpr int kPerturbColumns = 4 * kPerturbThreads;  // of a block

// Grid: ranges of columns, rows. A thread for four columns.
__global__ void __launch_bounds__(kPerturbThreads)
    Perturb(const __grid_constant__ PerturbArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const DrawRow row = args.rows[blockIdx.y];
  const int64_t begin = blockIdx.y * args.logits.stride;
  const int first = blockIdx.x * kPerturbColumns + 4 * threadIdx.x;
  uint32_t bits[4] = {};
  if (args.tokens == nullptr && row.temperature > 0)
    NoiseBits(row, first, bits);
  for (int i = 0; i < 4; ++i) {
    const int column = first + i;
    if (column >= args.logits.vocab) return;
    const float logit = args.logits.logits[begin + column];
    float score = logit;
    if (row.temperature > 0) {
      uint32_t random = bits[i];
      if (args.tokens != nullptr) {
        const int token = args.tokens[column];
        uint32_t four[4];
        NoiseBits(row, token & ~3, four);
        random = four[token & 3];
      }
      score = logit + row.temperature * NoiseFromBits(random);
    }
    args.scores[begin + column] = score;
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PERTURB_H_
