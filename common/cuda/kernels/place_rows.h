#ifndef ESPALIER_COMMON_CUDA_KERNELS_PLACE_ROWS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PLACE_ROWS_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kPlaceThreads = 128;

// Grid: rows.
__global__ void __launch_bounds__(kPlaceThreads)
    PlaceRows(const __grid_constant__ PlaceRowsArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const int row = blockIdx.x, block = RowBlock(args.rows);
  const ExpertChoice* const choices =
      args.choices + int64_t{row} * args.per_row;
  for (int i = 8 * threadIdx.x; i < args.columns; i += 8 * kPlaceThreads) {
    const Piece piece = *reinterpret_cast<const Piece*>(
        args.activations + ActivationPlace(block, args.columns, row, i));
    for (int rank = 0; rank < args.per_row; ++rank) {
      const uint64_t to =
          ActivationPlace(args.out_block, args.columns, choices[rank].place, i);
      *reinterpret_cast<Piece*>(args.out + to) = piece;
    }
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PLACE_ROWS_H_
