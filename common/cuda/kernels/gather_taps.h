#ifndef ESPALIER_COMMON_CUDA_KERNELS_GATHER_TAPS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_GATHER_TAPS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

inline constexpr int kGatherTapsThreads = 128;

// Grid: kept rows, taps.
__global__ void __launch_bounds__(kGatherTapsThreads)
    GatherTaps(const __grid_constant__ GatherTapsArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const int64_t kept = blockIdx.x, tap = blockIdx.y;
  const bf16_t* const from =
      args.taps +
      (int64_t{args.points[tap]} * args.rows + args.kept[kept]) * args.hidden;
  bf16_t* const to = args.out + (kept * args.num_taps + tap) * args.hidden;
  for (int i = 8 * threadIdx.x; i < args.hidden; i += 8 * kGatherTapsThreads) {
    *reinterpret_cast<Piece*>(to + i) =
        *reinterpret_cast<const Piece*>(from + i);
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_GATHER_TAPS_H_
