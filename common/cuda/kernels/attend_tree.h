#ifndef ESPALIER_COMMON_CUDA_KERNELS_ATTEND_TREE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_ATTEND_TREE_H_

#include "common/cuda/kernels/attend_prefix.h"

namespace espalier::cuda {
namespace {

// Says where the positions of a page of a row lie in shared memory: in any slot
// of the panels, which follow one another from page prefix / 64 on.
template <int kDim>
struct PathPanel {
  uint32_t panels;   // of keys, or of values
  const int* slots;  // [kPagePositions] from that page's first on

  DEVICE PanelRow operator()(int i) const {
    const int slot = slots[i];
    return {panels + slot / kPagePositions * 2 * PanelBytes(kDim) +
                slot % kPagePositions * (kDim * 2),
            static_cast<uint32_t>(slot & 7)};
  }
};

// The pages of a tree, which follow one another in shared memory, each its
// keys, then its values.
template <int kDim>
struct TreePages {
  uint32_t panels;

  DEVICE PathPanel<kDim> Keys(const int* slots) const {
    return {panels, slots};
  }
  DEVICE PathPanel<kDim> Values(const int* slots) const {
    return {panels + PanelBytes(kDim), slots};
  }
};

// A row has at most eight queries, so half of the 16 rows of the sums are
// unused. For heads of 256 they are left out to save registers.
template <int kDim>
using TreeSoftmax = Softmax<kDim, kDim == 256 ? 8 : 16>;

inline constexpr int kTreeThreads = kTreeItemRows * 32;
inline int TreeShared(const AttendArgs& args) {
  return args.tree_pages * 2 * PanelBytes(args.head_dim) +
         kTreeItemRows * kPagePositions * static_cast<int>(sizeof(int)) + 16;
}

// The columns of values that a warp sums: all.
template <int kDim>
struct AllColumns {
  static constexpr int kCount = kDim;
  DEVICE static int First() { return 0; }
};

// A warp's row of a tree, or some columns of its values.
template <int kDim, typename Columns = AllColumns<kDim>>
struct TreeRow {
  static constexpr int kColumns = Columns::kCount;

  const AttendArgs& args;
  const PassSequence& sequence;
  int head;
  PassRow place;
  int query;  // of this lane, see StateOf

  DEVICE TreeRow(const AttendArgs& attend, const PassSequence& of, int index,
                 int kv_head)
      : args(attend),
        sequence(of),
        head(kv_head),
        place(attend.rows[of.first_row + index]) {
    const int g = threadIdx.x % 32 / 4;
    query = index * args.group + (g < args.group ? g : 0);
  }
  // Returns the first page that the row sees.
  template <bool kWindow>
  DEVICE int FirstPage() const {
    return kWindow ? FirstSeenPage(place.position, args.window) : 0;
  }
  // Returns the positions of a page that it sees.
  template <bool kWindow>
  DEVICE auto SeenOf(int page) const {
    const int seen = place.position + 1 - page * kPagePositions;
    const int end = seen < kPagePositions ? seen : kPagePositions;
    if constexpr (!kWindow) {
      return PositionsBefore{end};
    } else {
      const int begin = seen - args.window;
      return PositionsOfWindows{{begin, begin}, end};
    }
  }
  DEVICE bool HasQuery() const {
    return static_cast<int>(threadIdx.x % 32 / 4) < args.group;
  }

  // Loads the state that AttendPrefix left.
  template <int kRows>
  DEVICE void LoadState(int chunk,
                        Softmax<kDim, kRows, kColumns>& softmax) const {
    const float* const state =
        StateOf<kDim>(args, sequence, chunk, head, query);
    const int t = threadIdx.x % 4;
    softmax.Clear();
    const auto of_chunk = LoadVector<2>(state + kDim);
    softmax.largest[0] = of_chunk.of[0];
    softmax.sum[0] = of_chunk.of[1];
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      const auto out = LoadVector<2>(state + Columns::First() + 8 * n + 2 * t);
      softmax.out[n][0] = out.of[0];
      softmax.out[n][1] = out.of[1];
    }
  }

  // Finds the slots of a page's positions, from page `first_page` on. Positions
  // after the row's own get its own slot, so that masked values are finite.
  DEVICE void FindSlots(int page, int first_page, int* slots) const {
    __syncwarp();
    for (int i = threadIdx.x % 32; i < kPagePositions; i += 32) {
      const int position = page * kPagePositions + i;
      int slot = place.slot;
      if (position < sequence.prefix) {
        slot = position;
      } else if (position <= place.position) {
        slot = sequence.prefix +
               args.paths[place.path_begin + position - sequence.prefix];
      }
      slots[i] = slot - first_page * kPagePositions;
    }
    __syncwarp();
  }

  DEVICE void Write(const MergedChunks<kColumns, 8>& merged) const {
    if (!HasQuery()) return;
    const int heads = args.kv_heads * args.group;
    const int column =
        (head * args.group + threadIdx.x % 32 / 4) * kDim + Columns::First();
    const int row = sequence.first_row + place.slot - sequence.prefix;
    const float inverse = 1 / merged.sum[0];
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      const uint64_t at =
          ActivationPlace(args.out_block, heads * kDim, row,
                          column + 8 * n + 2 * (threadIdx.x % 4));
      *reinterpret_cast<uint32_t*>(args.out + at) =
          PackBf16(merged.out[n][0] * inverse, merged.out[n][1] * inverse);
    }
  }
};

// Merges the states that AttendPrefix left of all chunks before that of page
// `first`, and loads the state of that one, which AttendPath clears if the
// row's window begins later. Loads of several chunks are under way at once.
template <bool kWindow, int kDim, typename Columns, int kRows>
DEVICE void LoadChunks(const TreeRow<kDim, Columns>& row, int first,
                       MergedChunks<Columns::kCount, 8>& merged,
                       Softmax<kDim, kRows, Columns::kCount>& softmax) {
  const int open_chunk = ChunkOf(first);
  const int seen = row.template FirstPage<kWindow>();
  merged.Clear();
#pragma unroll(kDim == 256 ? 1 : 4)
  for (int chunk = ChunkOf(seen); chunk < open_chunk; ++chunk) {
    row.LoadState(chunk, softmax);
    merged.Add(softmax);
  }
  if (ChunkBegin(open_chunk) < first) row.LoadState(open_chunk, softmax);
}

// Pages `first` to its own of a row, which are in shared memory: `panels` says
// where. `slots`: of the first one.
template <bool kWindow, int kDim, typename Columns, int kRows, typename Panels,
          typename Rows16>
DEVICE void AttendPath(const TreeRow<kDim, Columns>& row, int first,
                       const Panels& panels, int* slots, const Rows16& queries,
                       MergedChunks<Columns::kCount, 8>& merged,
                       Softmax<kDim, kRows, Columns::kCount>& softmax) {
  const int own_page = row.place.position / kPagePositions;
  const int seen = row.template FirstPage<kWindow>();
  for (int page = seen > first ? seen : first; page <= own_page; ++page) {
    if (ChunkBegin(ChunkOf(page)) == page || page == seen) softmax.Clear();
    if (page > first) row.FindSlots(page, first, slots);
    softmax.Add(queries, row.args.scale, row.template SeenOf<kWindow>(page),
                panels.Keys(slots), panels.Values(slots));
    const bool ends_chunk = ChunkBegin(ChunkOf(page + 1)) == page + 1;
    if (page == own_page || ends_chunk) merged.Add(softmax);
  }
  row.Write(merged);
}

// Grid: items, K/V heads. A warp for each row. Shared memory: the pages of the
// sequence from prefix / 64 on, and slots of each warp. AttendPrefix
// lets this begin only after Prepare's results are visible.
template <int kDim, bool kWindow>
__global__ void __launch_bounds__(kTreeThreads)
    AttendTree(const __grid_constant__ AttendArgs args) {
  SHARED_MEMORY(shared);
  constexpr int kPanel = PanelBytes(kDim);
  int* const all_slots =
      reinterpret_cast<int*>(shared + args.tree_pages * 2 * kPanel);
  uint64_t* const full =
      reinterpret_cast<uint64_t*>(all_slots + kTreeItemRows * kPagePositions);
  if (threadIdx.x == 0) {
    BarrierInit(full, 1);
    FenceBarrierInit();
  }
  __syncthreads();
  DependentsMayLaunch();
  if (args.num_prefix_items == 0) WaitForPrevious();
  const TreeItem item = args.tree_items[blockIdx.x];
  const PassSequence sequence = args.sequences[item.sequence];
  const int head = blockIdx.y, warp = threadIdx.x / 32;
  const int first = sequence.prefix / kPagePositions;
  const int lane = threadIdx.x % 32;
  const int last = (sequence.prefix + sequence.rows - 1) / kPagePositions;
  const int panels = 2 * (last - first + 1);
  static_assert(2 * (MostTreeRows(kDim) / kPagePositions + 1) <= 32);
  if (warp == 0) {
    if (lane == 0) BarrierArriveExpect(full, panels * kPanel);
    __syncwarp();
    if (lane < panels) {
      const int page =
          args.kv.page_table[sequence.table_begin + first + lane / 2];
      BulkCopy(shared + lane * kPanel, PanelOf(args, page, head, lane % 2),
               kPanel, full);
    }
  }
  const int index = item.first_row + warp;
  if (index >= sequence.rows) {  // whole warps
    WaitForPrevious();
    BarrierWait(full, 0);  // the block keeps its memory until then
    return;
  }
  int* const slots = all_slots + warp * kPagePositions;
  const TreeRow<kDim> row(args, sequence, index, head);
  row.FindSlots(first, first, slots);
  const bf16_t* const at[2] = {
      row.HasQuery() ? QueryOf<kDim>(args, sequence, head, row.query) : nullptr,
      nullptr};
  Queries<kDim> queries;
  queries.Load(at);
  WaitForPrevious();
  MergedChunks<kDim, 8> merged;
  TreeSoftmax<kDim> softmax;
  LoadChunks<kWindow>(row, first, merged, softmax);
  BarrierWait(full, 0);
  AttendPath<kWindow>(row, first, TreePages<kDim>{SharedAddress(shared)}, slots,
                      queries, merged, softmax);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_ATTEND_TREE_H_
