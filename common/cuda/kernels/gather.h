#ifndef ESPALIER_COMMON_CUDA_KERNELS_GATHER_H_
#define ESPALIER_COMMON_CUDA_KERNELS_GATHER_H_

#include "common/cuda/kernels/token_rank.h"

namespace espalier::cuda {
namespace {

// Grid: rows. Shared memory: a number for each warp.
__global__ void __launch_bounds__(kRowThreads)
    Gather(const __grid_constant__ GatherArgs args) {
  SHARED_MEMORY(shared);
  float* const scratch = reinterpret_cast<float*>(shared);
  DependentsMayLaunch();
  WaitForPrevious();
  const int index = blockIdx.x;
  const GatherRow row = args.rows[index];
  const int vocab = args.logits.vocab;
  const float* const logits = args.logits.logits + index * args.logits.stride;
  const auto is_outside = [&](int token) {
    return !IsAmong(args.support, row.support_begin, row.support_end, token);
  };
  const RowPeak outside = FindPeak(logits, vocab, scratch, is_outside);
  mass_t mass = 0;
  ForTokens(logits, vocab, [&](int token, float logit) {
    if (is_outside(token)) {
      mass += Mass(LogWeight(logit, outside.largest, row.temperature));
    }
  });
  mass =
      BlockReduce<kRowThreads>(mass, reinterpret_cast<mass_t*>(shared), Sum{});
  float largest = outside.largest;
  for (int i = row.support_begin + threadIdx.x; i < row.support_end;
       i += kRowThreads) {
    const float logit = logits[args.support[i]];
    args.support_logits[i] = logit;
    largest = fmaxf(largest, logit);
  }
  largest = BlockReduce<kRowThreads>(largest, scratch, Largest{});
  if (threadIdx.x == 0) {
    args.results[index] = {largest, outside.largest,
                           BadToken(outside.bad_token), mass};
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_GATHER_H_
