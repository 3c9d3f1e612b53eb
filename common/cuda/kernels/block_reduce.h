#ifndef ESPALIER_COMMON_CUDA_KERNELS_BLOCK_REDUCE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_BLOCK_REDUCE_H_

#include "common/cuda/device.h"

namespace espalier::cuda {
namespace {

struct Largest {
  template <typename T>
  DEVICE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Smallest {
  template <typename T>
  DEVICE T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct Sum {
  template <typename T>
  DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

// Reduces the values of all threads of the block, and returns the result to all
// of them. `scratch`: [warps] in shared memory, free again when it returns. Not
// for sums of floats in another order than this one.
template <int kThreads, typename T, typename Operation>
DEVICE T BlockReduce(T value, T* scratch, Operation operation) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = operation(value, __shfl_xor_sync(~0u, value, lanes));
  }
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    value = operation(value, scratch[warp]);
  }
  __syncthreads();
  return value;
}

// Returns the sum of the values of this thread and of those before it.
template <int kThreads, typename T>
DEVICE T BlockScan(T value, T* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const T before = __shfl_up_sync(~0u, value, lanes);
    if (lane >= lanes) value += before;
  }
  if (lane == 31) scratch[warp] = value;
  __syncthreads();
  for (int i = 0; i < warp; ++i) value += scratch[i];
  __syncthreads();
  return value;
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_BLOCK_REDUCE_H_
