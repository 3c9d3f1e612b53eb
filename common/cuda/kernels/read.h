#ifndef ESPALIER_COMMON_CUDA_KERNELS_READ_H_
#define ESPALIER_COMMON_CUDA_KERNELS_READ_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

inline constexpr int kReadThreads = 256;
static_assert(kReadSums % kReadThreads == 0);

// Grid: kReadSums / kReadThreads. Several pieces are under way at a time.
__global__ void __launch_bounds__(kReadThreads)
    Read(const __grid_constant__ ReadArgs args) {
  constexpr int kAtOnce = 8;
  DependentsMayLaunch();
  WaitForPrevious();
  const int thread = blockIdx.x * kReadThreads + threadIdx.x;
  const int64_t pieces = args.bytes / static_cast<int64_t>(sizeof(Piece));
  const Piece* const from = reinterpret_cast<const Piece*>(args.memory);
  uint32_t sum = 0;
  const auto take = [&sum](const Piece& piece) {
    for (int word = 0; word < 4; ++word) sum ^= piece.words[word];
  };
  int64_t at = thread;
  for (; at + (kAtOnce - 1) * int64_t{kReadSums} < pieces;
       at += kAtOnce * int64_t{kReadSums}) {
    Piece read[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      read[i] = from[at + i * int64_t{kReadSums}];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) take(read[i]);
  }
  for (; at < pieces; at += kReadSums) take(from[at]);
  args.sums[thread] = sum;
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_READ_H_
