#ifndef ESPALIER_COMMON_CUDA_KERNELS_ATTEND_CHAIN_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ATTEND_CHAIN_H_

#include "common/cuda/kernels/attend_prefix.h"

namespace espalier::cuda {
namespace {

// A page whose positions are in their order. Positions after the last written
// one get its place, so that masked values are finite.
template <int kDim>
struct ChainPanel {
  uint32_t panel;
  int last;  // of the page that is written

  DEVICE PanelRow operator()(int i) const {
    return WholePanel<kDim>{panel}(i < last ? i : last);
  }
};

// The sixteen queries of a warp, of which a lane has two.
template <int kDim, bool kWindow>
struct ChainQueries {
  const AttendArgs& args;
  const PassSequence& sequence;
  int head;
  int first;  // query of the lane; its other one is eight after it

  // Queries that the sequence does not have stand for its last one.
  DEVICE int Present(int query) const {
    const int last = sequence.rows * args.group - 1;
    return query < last ? query : last;
  }
  // Returns the position of a query's row.
  DEVICE int PositionOf(int query) const {
    return sequence.prefix + Present(query) / args.group;
  }

  // Returns the positions of a page that the lane's queries see.
  DEVICE auto SeenOf(int page) const {
    PositionsUpToRows<kWindow> seen;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      seen.end[i] = PositionOf(first + 8 * i) + 1 - page * kPagePositions;
      seen.begin[i] = seen.end[i] - args.window;
    }
    return seen;
  }

  // Loads the states that AttendPrefix left.
  DEVICE void LoadStates(int chunk, Softmax<kDim>& softmax) const {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* const state =
          StateOf<kDim>(args, sequence, chunk, head, Present(first + 8 * i));
      const auto of_chunk = LoadVector<2>(state + kDim);
      softmax.largest[i] = of_chunk.of[0];
      softmax.sum[i] = of_chunk.of[1];
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const auto out = LoadVector<2>(state + 8 * n + 2 * t);
        softmax.out[n][2 * i] = out.of[0];
        softmax.out[n][2 * i + 1] = out.of[1];
      }
    }
  }

  // Merges the states of all chunks from that of page `seen` to before that of
  // page `next`, and loads the state of that one.
  DEVICE void LoadChunks(int seen, int next, MergedChunks<kDim, 16>& merged,
                         Softmax<kDim>& softmax) const {
    const int open_chunk = ChunkOf(next);
    merged.Clear();
#pragma unroll 1
    for (int chunk = ChunkOf(seen); chunk < open_chunk; ++chunk) {
      LoadStates(chunk, softmax);
      merged.Add(softmax);
    }
    softmax.Clear();
    if (seen < next && ChunkBegin(open_chunk) < next) {
      LoadStates(open_chunk, softmax);
    }
  }

  DEVICE void Write(const MergedChunks<kDim, 16>& merged) const {
    const int columns = args.kv_heads * args.group * kDim;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = first + 8 * i;
      if (query >= sequence.rows * args.group) continue;
      const int row = sequence.first_row + query / args.group;
      const int column = (head * args.group + query % args.group) * kDim;
      const float inverse = 1 / merged.sum[i];
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const uint64_t at = ActivationPlace(
            args.out_block, columns, row, column + 8 * n + threadIdx.x % 4 * 2);
        *reinterpret_cast<uint32_t*>(args.out + at) = PackBf16(
            merged.out[n][2 * i] * inverse, merged.out[n][2 * i + 1] * inverse);
      }
    }
  }
};

inline constexpr int kAttendChainThreads = kChainItemQueries / 16 * 32;
template <int kDim>
inline constexpr int kAttendChainShared =
    PageRing<kDim>::kSharedBytes +
    kAttendChainThreads* static_cast<int>(sizeof(MergedChunks<kDim, 16>));

// Grid: items, K/V heads. Shared memory: a ring of two pages, and the merged
// chunks of each thread, for which heads of 128 leave too few registers. The
// bits are those of AttendTree: the order of pages is the same, and a page of
// which a row sees no position keeps the row's bits. The kernel before lets
// this begin only after Prepare's results are visible.
template <int kDim, bool kWindow>
__global__ void __launch_bounds__(kAttendChainThreads)
    AttendChain(const __grid_constant__ AttendArgs args) {
  SHARED_MEMORY(shared);
  const int head = blockIdx.y;
  PageRing<kDim> ring(args, shared);
  DependentsMayLaunch();
  if (args.num_prefix_items == 0) WaitForPrevious();
  const ChainItem item = args.chain_items[blockIdx.x];
  const PassSequence sequence = args.sequences[item.sequence];
  const int lane = threadIdx.x % 32;
  const int first = item.first_query + threadIdx.x / 32 * 16;
  const ChainQueries<kDim, kWindow> rows{args, sequence, head,
                                         first + lane / 4};
  const int next = sequence.prefix / kPagePositions;
  const int seen =
      kWindow ? FirstSeenPage(rows.PositionOf(item.first_query), args.window)
              : 0;
  const int begin = seen > next ? seen : next;
  const int last_query = item.first_query + kChainItemQueries - 1;
  const int pages = rows.PositionOf(last_query) / kPagePositions - begin + 1;
  static_assert(MostChainRows(kDim) / kPagePositions + 1 <= 32);
  ring.Begin(sequence, begin, pages);

  Queries<kDim> queries;
  LoadTwoQueries<kDim>(args, sequence, head, rows.first, queries);
  WaitForPrevious();
  MergedChunks<kDim, 16>& merged = reinterpret_cast<MergedChunks<kDim, 16>*>(
      shared + PageRing<kDim>::kSharedBytes)[threadIdx.x];
  Softmax<kDim> softmax;
  rows.LoadChunks(seen, next, merged, softmax);
  const int written = sequence.prefix + sequence.rows - 1;
  const int own_pages =
      first < sequence.rows * args.group
          ? rows.PositionOf(first + 15) / kPagePositions - begin + 1
          : 0;
  for (int i = 0; i < pages; ++i) {
    const uint32_t keys = ring.Wait(i);
    const int page = begin + i;
    if (i < own_pages) {  // whole warps
      if (ChunkBegin(ChunkOf(page)) == page) softmax.Clear();
      const int last = written - page * kPagePositions;
      softmax.Add(queries, args.scale, rows.SeenOf(page),
                  ChainPanel<kDim>{keys, last},
                  ChainPanel<kDim>{keys + PanelBytes(kDim), last});
      const bool ends_chunk = ChunkBegin(ChunkOf(page + 1)) == page + 1;
      if (i + 1 == own_pages || ends_chunk) merged.Add(softmax);
    }
    __syncthreads();
    if (threadIdx.x < 32 && i + 2 < pages) ring.Bring(i + 2);
  }
  rows.Write(merged);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ATTEND_CHAIN_H_
