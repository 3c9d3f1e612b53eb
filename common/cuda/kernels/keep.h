#ifndef ESPALIER_COMMON_CUDA_KERNELS_KEEP_H_
#define ESPALIER_COMMON_CUDA_KERNELS_KEEP_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kKeepThreads = 128;

// Grid: panels of a page, sequences. As a path ascends, no row moves to a place
// from which a later one is still to be read; those that move at once are all
// read before any is written.
__global__ void __launch_bounds__(kKeepThreads)
    Keep(const __grid_constant__ KeepArgs args) {
  DependentsMayLaunch();
  WaitForPrevious();
  const KeepSequence sequence = args.sequences[blockIdx.y];
  const int pieces = args.head_dim / 8;
  const int rows_at_once = kKeepThreads / pieces;
  const int piece = threadIdx.x % pieces, row_of_batch = threadIdx.x / pieces;
  const uint32_t panel_bytes = PanelBytes(args.head_dim);
  unsigned char* const panels =
      args.kv.pages + int64_t{blockIdx.x} * panel_bytes;
  const auto place = [&](int slot) {
    const int page =
        args.kv.page_table[sequence.table_begin + slot / kPagePositions];
    return reinterpret_cast<Piece*>(
        panels + page * args.kv.page_bytes +
        PanelPlace(args.head_dim, slot % kPagePositions, piece));
  };
  for (int first = 0; first < sequence.path_size; first += rows_at_once) {
    const int i = first + row_of_batch;
    const bool moves = row_of_batch < rows_at_once && i < sequence.path_size;
    Piece moved = {};
    if (moves) {
      moved = *place(sequence.prefix + args.paths[sequence.path_begin + i]);
    }
    __syncthreads();
    if (moves) *place(sequence.prefix + i) = moved;
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_KEEP_H_
