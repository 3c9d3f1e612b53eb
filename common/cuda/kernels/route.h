#ifndef ESPALIER_COMMON_CUDA_KERNELS_ROUTE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ROUTE_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/row_norm.h"

namespace espalier::cuda {
namespace {

inline constexpr int kRouteWarps = 8;

// Holds what a block knows of its row, in shared memory.
struct RouteMemory {
  float logits[kMaxExperts];
  float masses[kMaxExperts];  // e^(logit - the largest)
  int order[kMaxExperts];     // the chosen experts
};

// A lane's part of a product follows from the row's size alone, so the bits of
// a logit do not depend on other rows. Called by a warp.
DEVICE float RouterLogit(const RouteArgs& args, int64_t row, int expert) {
  const float* const x = args.x + row * args.hidden;
  const float* const weights = args.router + int64_t{expert} * args.hidden;
  float sum = 0;
  for (int i = 4 * (threadIdx.x % 32); i < args.hidden; i += 4 * 32) {
    const Quad a = LoadVector<4>(x + i), b = LoadVector<4>(weights + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) sum = fmaf(a.of[j], b.of[j], sum);
  }
  sum = WarpSum(sum);
  return sum == sum ? sum : -INFINITY;
}

// Returns how many experts are ahead of one.
DEVICE int RankOfExpert(const RouteArgs& args, const float* logits,
                        int expert) {
  int rank = 0;
  for (int other = 0; other < args.experts; ++other) {
    rank += logits[other] > logits[expert] ||
            (logits[other] == logits[expert] && other < expert);
  }
  return rank;
}

// Writes the choices of a row. Called by a warp.
DEVICE void WriteChoices(const RouteArgs& args, const RouteMemory& memory,
                         ExpertChoice* choices) {
  const int lane = threadIdx.x % 32;
  float all = 0, chosen = 0;
  for (int i = lane; i < args.experts; i += 32) all += memory.masses[i];
  all = WarpSum(all);
  for (int i = 0; i < args.per_row; ++i) {
    chosen += memory.masses[memory.order[i]] / all;
  }
  for (int i = lane; i < args.per_row; i += 32) {
    const float weight = memory.masses[memory.order[i]] / all;
    choices[i] = {memory.order[i],
                  args.weights_sum_to_one ? weight / chosen : weight, 0};
  }
}

// Grid: rows.
__global__ void __launch_bounds__(kRouteWarps * 32)
    Route(const __grid_constant__ RouteArgs args) {
  SHARED_MEMORY(shared);
  RouteMemory& memory = *reinterpret_cast<RouteMemory*>(shared);
  DependentsMayLaunch();
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  const int warp = threadIdx.x / 32;
  for (int expert = warp; expert < args.experts; expert += kRouteWarps) {
    const float logit = RouterLogit(args, row, expert);
    if (threadIdx.x % 32 == 0) memory.logits[expert] = logit;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < args.experts; i += kRouteWarps * 32) {
    const int rank = RankOfExpert(args, memory.logits, i);
    if (rank < args.per_row) memory.order[rank] = i;
  }
  __syncthreads();
  constexpr float kLog2E = 1.44269504f;
  const float largest = memory.logits[memory.order[0]];
  for (int i = threadIdx.x; i < args.experts; i += kRouteWarps * 32) {
    memory.masses[i] = Exp2(kLog2E * (memory.logits[i] - largest));
  }
  __syncthreads();
  if (warp == 0) {
    WriteChoices(args, memory, args.choices + row * args.per_row);
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ROUTE_H_
