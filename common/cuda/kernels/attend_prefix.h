#ifndef ESPALIER_COMMON_CUDA_KERNELS_ATTEND_PREFIX_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ATTEND_PREFIX_H_

#include "common/cuda/kernels/attention_tile.h"

namespace espalier::cuda {
namespace {

// Attention goes over a position's text in an order that follows from positions
// alone: its pages up to its own in ascending order, chunk by chunk (ChunkOf),
// each chunk from an empty softmax; then the chunks are merged in ascending
// order.
//
// Pages that lie wholly in the prefix are the same for all rows: here. What
// comes after them differs by row: attend_tree.h.

// page: its number in the pool.
DEVICE const unsigned char* PanelOf(const AttendArgs& args, int page,
                                    int kv_head, int is_value) {
  return args.kv.pages + page * args.kv.page_bytes +
         PanelOffset(args.head_dim, args.kv_heads, 0, kv_head, is_value);
}

// Of a query (row * group + head of the group) after a chunk: what Softmax
// holds, weighted values first.
template <int kDim>
DEVICE float* StateOf(const AttendArgs& args, const PassSequence& sequence,
                      int chunk, int kv_head, int query) {
  const int64_t queries = int64_t{sequence.rows} * args.group;
  return args.states +
         (sequence.states_begin +
          (int64_t{chunk} * args.kv_heads + kv_head) * queries + query) *
             (kDim + 2);
}

// A query of a sequence.
template <int kDim>
DEVICE const bf16_t* QueryOf(const AttendArgs& args,
                             const PassSequence& sequence, int kv_head,
                             int query) {
  const int64_t row = sequence.first_row + query / args.group;
  return args.queries +
         ((row * args.kv_heads + kv_head) * args.group + query % args.group) *
             kDim;
}

// Of scores, in units of log 2.
DEVICE constexpr float AttendScale(int head_dim) {
  constexpr float kLog2E = 1.44269504f;
  return head_dim == 64 ? kLog2E / 8 : kLog2E / 11.3137085f;
}

// Of a lane's two queries, `first` and the one eight after it.
template <int kDim>
DEVICE void WriteStates(const AttendArgs& args, const PassSequence& sequence,
                        int chunk, int kv_head, int first,
                        const Softmax<kDim>& softmax) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = first + 8 * i;
    if (query >= sequence.rows * args.group) continue;
    float* const state = StateOf<kDim>(args, sequence, chunk, kv_head, query);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      StoreVector(
          state + 8 * n + 2 * t,
          Vector<float, 2>{{softmax.out[n][2 * i], softmax.out[n][2 * i + 1]}});
    }
    if (t == 0) {
      StoreVector(state + kDim,
                  Vector<float, 2>{{softmax.largest[i], softmax.sum[i]}});
    }
  }
}

template <int kDim>
inline constexpr int kPrefixShared = 4 * PanelBytes(kDim) + 16;
inline constexpr int kPrefixThreads = kPrefixItemQueries / 16 * 32;

// Grid: items, K/V heads. Shared memory: keys and values of two pages, whose
// copies take turns. The first are asked for while Prepare, which writes no
// page that lies wholly in a prefix, still works.
template <int kDim>
__global__ void __launch_bounds__(kPrefixThreads)
    AttendPrefix(const __grid_constant__ AttendArgs args) {
  SHARED_MEMORY(shared);
  constexpr int kPanel = PanelBytes(kDim);
  uint64_t* const full = reinterpret_cast<uint64_t*>(shared + 4 * kPanel);
  if (threadIdx.x == 0) {
    BarrierInit(&full[0], 1);
    BarrierInit(&full[1], 1);
    FenceBarrierInit();
  }
  __syncthreads();
  const PrefixItem item = args.prefix_items[blockIdx.x];
  const PassSequence sequence = args.sequences[item.sequence];
  const int head = blockIdx.y;
  const int whole_pages = sequence.prefix / kPagePositions;
  const int begin = ChunkBegin(item.chunk);
  const int chunk_end = ChunkBegin(item.chunk + 1);
  const int pages = (chunk_end < whole_pages ? chunk_end : whole_pages) - begin;

  // Lane i of each warp knows the number of page i in the pool.
  const int lane = threadIdx.x % 32;
  static_assert(kLongChunkPages <= 32);
  const int own_page =
      args.kv
          .page_table[sequence.table_begin + begin + (lane < pages ? lane : 0)];
  const auto bring = [&](int page) {  // by a warp
    const int number = __shfl_sync(~0u, own_page, page);
    if (lane != 0) return;
    uint64_t* const barrier = &full[page % 2];
    unsigned char* const to = shared + page % 2 * 2 * kPanel;
    BarrierArriveExpect(barrier, 2 * kPanel);
    for (int v = 0; v < 2; ++v) {
      BulkCopy(to + v * kPanel, PanelOf(args, number, head, v), kPanel,
               barrier);
    }
  };
  if (threadIdx.x < 32) {
    for (int page = 0; page < 2 && page < pages; ++page) bring(page);
  }
  WaitForPrevious();
  DependentsMayLaunch();

  const int first = item.first_query + threadIdx.x / 32 * 16 + lane / 4;
  const int queries_there = sequence.rows * args.group;
  const bf16_t* at[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = first + 8 * i;
    at[i] = query < queries_there ? QueryOf<kDim>(args, sequence, head, query)
                                  : nullptr;
  }
  Queries<kDim> queries;
  queries.Load(at);
  Softmax<kDim> softmax;
  softmax.Clear();
  const float scale = AttendScale(kDim);
  const bool has_queries = first - lane / 4 < queries_there;  // whole warps
  for (int page = 0; page < pages; ++page) {
    BarrierWait(&full[page % 2], page / 2 & 1);
    const uint32_t keys = SharedAddress(shared + page % 2 * 2 * kPanel);
    if (has_queries) {
      softmax.Add(queries, scale, kPagePositions, WholePanel<kDim>{keys},
                  WholePanel<kDim>{keys + kPanel});
    }
    __syncthreads();
    if (threadIdx.x < 32 && page + 2 < pages) bring(page + 2);
  }
  WriteStates(args, sequence, item.chunk, head, first, softmax);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ATTEND_PREFIX_H_
