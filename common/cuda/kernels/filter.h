#ifndef ESPALIER_COMMON_CUDA_KERNELS_FILTER_H_
#define ESPALIER_COMMON_CUDA_KERNELS_FILTER_H_

#include "common/cuda/kernels/token_rank.h"

namespace espalier::cuda {
namespace {

// Grid: rows. Shared memory: SelectMemory.
__global__ void __launch_bounds__(kRowThreads)
    Filter(const __grid_constant__ FilterArgs args) {
  SHARED_MEMORY(memory);
  SelectMemory* const shared = reinterpret_cast<SelectMemory*>(memory);
  DependentsMayLaunch();
  WaitForPrevious();
  const int index = blockIdx.x;
  const FilterRow row = args.rows[index];
  const int vocab = args.logits.vocab;
  const float* const logits = args.logits.logits + index * args.logits.stride;
  const float largest =
      FindPeak(logits, vocab, reinterpret_cast<float*>(shared->scratch),
               [](int) { return true; })
          .largest;
  const RankSelector selector(args.logits, index, largest, shared);
  TokenRank lowest = 0;
  if (row.top_k > 0 && row.top_k < vocab) {
    lowest = selector.Select(row.top_k, [](float) { return mass_t{1}; });
  }
  if (row.top_p < 1) {
    const auto mass = [&](float logit) {
      return Mass(logit, largest, row.temperature);
    };
    mass_t total = 0;
    for (int token = threadIdx.x; token < vocab; token += kRowThreads) {
      if (RankOf(logits[token], token) >= lowest) total += mass(logits[token]);
    }
    total = BlockReduce<kRowThreads>(total, shared->scratch, Sum{});
    // At least so much, as a whole number.
    const double wanted = static_cast<double>(row.top_p) * total;
    mass_t target = static_cast<mass_t>(wanted);
    if (static_cast<double>(target) < wanted || target == 0) ++target;
    lowest = selector.Select(target < total ? target : total, mass);
  }
  if (threadIdx.x == 0) args.lowest[index] = lowest;
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_FILTER_H_
