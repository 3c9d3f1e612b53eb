#ifndef ESPALIER_COMMON_CUDA_KERNELS_CARRY_MAIL_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CARRY_MAIL_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"

namespace espalier::cuda {
namespace {

// One block. All of a thread's loads are under way at once, as each goes to the
// host and back.
__global__ void __launch_bounds__(kMailThreads)
    CarryMail(const __grid_constant__ MailArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const Piece* const from = reinterpret_cast<const Piece*>(args.from);
  Piece* const to = reinterpret_cast<Piece*>(args.to);
  const int pieces = static_cast<int>(args.bytes / sizeof(Piece));
  Piece own[kMailPieces] = {};
#pragma unroll
  for (int k = 0; k < kMailPieces; ++k) {
    const int i = threadIdx.x + k * kMailThreads;
    if (i < pieces) own[k] = LoadFromHost(from + i);
  }
#pragma unroll
  for (int k = 0; k < kMailPieces; ++k) {
    const int i = threadIdx.x + k * kMailThreads;
    if (i < pieces) to[i] = own[k];
  }
  if (args.flag == nullptr) return;
  __syncthreads();
  if (threadIdx.x == 0) RaiseFlag(args.flag, args.number);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CARRY_MAIL_H_
