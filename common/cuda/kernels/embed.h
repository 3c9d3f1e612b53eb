#ifndef ESPALIER_COMMON_CUDA_KERNELS_EMBED_H_
#define ESPALIER_COMMON_CUDA_KERNELS_EMBED_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kEmbedThreads = 128;

// Grid: rows.
__global__ void __launch_bounds__(kEmbedThreads)
    Embed(const __grid_constant__ EmbedArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  const int token = args.tokens[row];
  for (int i = 8 * threadIdx.x; i < args.hidden; i += 8 * kEmbedThreads) {
    const Piece piece = *reinterpret_cast<const Piece*>(
        args.table + WeightPlace(args.hidden, token, i));
    float* const to = args.x + row * args.hidden + i;
    Piece rounded;
    for (int k = 0; k < 4; ++k) {
      to[2 * k] = args.scale * FromBf16(piece.words[k] & 0xffff);
      to[2 * k + 1] = args.scale * FromBf16(piece.words[k] >> 16);
      rounded.words[k] = PackBf16(to[2 * k], to[2 * k + 1]);
    }
    if (args.tap != nullptr) {
      *reinterpret_cast<Piece*>(args.tap + row * args.hidden + i) = rounded;
    }
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_EMBED_H_
