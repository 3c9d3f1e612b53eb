#ifndef ESPALIER_COMMON_CUDA_KERNELS_GROUP_ROWS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_GROUP_ROWS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/block_reduce.h"

namespace espalier::cuda {
namespace {

inline constexpr int kGroupThreads = kMaxExperts;

// One block, a thread for each expert: a counting sort, in which each thread
// reads all choices and takes those of its expert.
__global__ void __launch_bounds__(kGroupThreads)
    GroupRows(const __grid_constant__ GroupRowsArgs args) {
  SHARED_MEMORY(shared);
  DependentsMayLaunch();
  WaitForPrevious();
  const int expert = threadIdx.x;
  int count = 0;
  for (int i = 0; i < args.num_choices; ++i) {
    count += args.choices[i].expert == expert;
  }
  const int items = (count + args.block - 1) / args.block;
  const int end =
      BlockScan<kGroupThreads>(items, reinterpret_cast<int*>(shared));
  for (int i = 0; i < items; ++i) {
    const int left = count - i * args.block;
    args.items[end - items + i] = {expert,
                                   left < args.block ? left : args.block};
  }
  int place = (end - items) * args.block;
  for (int i = 0; count > 0 && i < args.num_choices; ++i) {
    if (args.choices[i].expert == expert) args.choices[i].place = place++;
  }
  if (threadIdx.x != kGroupThreads - 1) return;
  for (int i = end; i < args.num_items; ++i) args.items[i] = {0, 0};
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_GROUP_ROWS_H_
