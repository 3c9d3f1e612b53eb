#ifndef ESPALIER_COMMON_CUDA_KERNELS_LAYER_ATTENTION_H_
#define ESPALIER_COMMON_CUDA_KERNELS_LAYER_ATTENTION_H_

#include "common/cuda/kernels/attend_tree.h"
#include "common/cuda/kernels/chain_strip.h"
#include "common/cuda/kernels/layer_panels.h"
#include "common/cuda/kernels/prepare.h"

namespace espalier::cuda {
namespace {

// The steps of a layer before its chain, by the threads that multiply. Their
// sums are those of the launched kernels, with fewer registers: two warps share
// queries, each with half of the values' columns, and read them for each page.
inline constexpr int kChainWarps = kChainWorkers / 32;
static_assert(kLayerItemQueries == 16 * (kChainWarps / 2));
static_assert(kLayerItemRows == kChainWarps / 2);

// Prepares this block's rows of a K/V head and of the heads that share it.
template <int kDim>
DEVICE void PrepareHead(const PrepareArgs& args, const LayerHeads& heads,
                        int kv_head) {
  const int group = args.heads / args.kv_heads, of_row = group + 2;
  const int warp = heads.PlaceOfBlock() * kChainWarps + threadIdx.x / 32;
  for (int i = warp; i < args.num_rows * of_row;
       i += heads.BlocksOf(kv_head) * kChainWarps) {
    const int place = i % of_row;
    const int output_head =
        place < group ? kv_head * group + place
                      : args.heads + (place - group) * args.kv_heads + kv_head;
    HeadToPrepare<kDim>(args, i / of_row, output_head).Run();
  }
}

// The columns of values that a warp sums: half of the warps have either half.
template <int kDim>
struct HalfOfColumns {
  static constexpr int kCount = kDim / 2;
  DEVICE static int First() {
    return ThreadAnew() < kChainWorkers / 2 ? 0 : kCount;
  }
};
DEVICE int WarpOfHalf() { return ThreadAnew() / 32 % (kChainWarps / 2); }

// A panel of values in a ring from the first column of this warp on.
template <int kDim>
DEVICE PanelRowFrom FromOwnColumn(const PanelRow& row) {
  return {row, static_cast<uint32_t>(HalfOfColumns<kDim>::First()) / 8};
}

// A chunk of the prefix: two warps for sixteen queries.
template <int kDim, typename Rings>
DEVICE void AttendPrefixItem(const AttendArgs& args, const PrefixItem& item,
                             int head, const Rings& rings, RingPlace& place) {
  const PassSequence& sequence = args.sequences[item.sequence];
  const ItemPages pages = ItemPages::Of(item, sequence);
  const int lane = threadIdx.x % 32;
  const int first = item.first_query + WarpOfHalf() * 16 + lane / 4;
  const bool has_queries =
      first - lane / 4 < sequence.rows * args.group;  // whole warps
  QueriesInMemory queries;
  LoadTwoQueries<kDim>(args, sequence, head, first, queries);
  Softmax<kDim, 16, HalfOfColumns<kDim>::kCount> softmax;
  softmax.Clear();
  for (int page = 0; page < pages.count; ++page) {
    const RingPanels<kDim, Rings> panels{rings, place.page};
    if (has_queries) {
      panels.Wait(1);
      softmax.Add(
          queries, args.scale, PositionsBefore{kPagePositions},
          [&panels](int i) { return panels.Row(0, i); },
          [&panels](int i) { return FromOwnColumn<kDim>(panels.Row(1, i)); });
    }
    panels.GiveBack(1);
    place.page += panels.kPagesOfItemPage;
  }
  WriteStates(args, sequence, item.chunk, head, first, softmax,
              HalfOfColumns<kDim>::First());
}

// Where AttendPath finds the pages of an item.
template <int kDim, typename Rings>
struct TreePagesOfRing {
  const RingPanels<kDim, Rings>& panels;

  DEVICE auto Keys(const int* slots) const {
    return [&panels = panels, slots](int i) {
      return panels.Row(slots[i] / kPagePositions * 2,
                        slots[i] % kPagePositions);
    };
  }
  DEVICE auto Values(const int* slots) const {
    return [&panels = panels, slots](int i) {
      return FromOwnColumn<kDim>(panels.Row(slots[i] / kPagePositions * 2 + 1,
                                            slots[i] % kPagePositions));
    };
  }
};

// Some rows of a tree: two warps for each, with half of the values' columns.
template <int kDim, typename Rings>
DEVICE void AttendTreeItem(const AttendArgs& args, const TreeItem& item,
                           int head, const Rings& rings, RingPlace& place) {
  using Columns = HalfOfColumns<kDim>;
  const PassSequence& sequence = args.sequences[item.sequence];
  const int index = item.first_row + WarpOfHalf();
  const RingPanels<kDim, Rings> panels{rings, place.page};
  if (index < sequence.rows) {
    const ItemPages pages = ItemPages::Of(item, sequence);
    int* const slots =
        reinterpret_cast<int*>(rings.more) + threadIdx.x / 32 * kPagePositions;
    const TreeRow<kDim, Columns> row(args, sequence, index, head);
    row.FindSlots(pages.begin, pages.begin, slots);
    QueriesInMemory queries;
    queries.Load({row.HasQuery()
                      ? QueryOf<kDim>(args, sequence, head, row.query)
                      : nullptr,
                  nullptr});
    MergedChunks<Columns::kCount, 8> merged;
    Softmax<kDim, 8, Columns::kCount> softmax;
    LoadChunks<false>(row, pages.begin, merged, softmax);
    panels.Wait(pages.count);
    AttendPath<false>(row, pages.begin, TreePagesOfRing<kDim, Rings>{panels},
                      slots, queries, merged, softmax);
  }
  const int count = ItemPages::Of(item, sequence).count;  // anew: a register
  panels.GiveBack(count);
  place.page += count * panels.kPagesOfItemPage;
}

// Waits until the blocks of a head have done a step of it.
DEVICE void WaitForHead(const uint32_t* done, const LayerHeads& heads,
                        int head) {
  if (threadIdx.x == 0) CounterWait(done, heads.BlocksOf(head));
  NamedSync(1, kChainWorkers);
}

// The attention of a layer. A step of a head begins when all blocks of the head
// have ended the one before. So nothing is overwritten early: what Prepare,
// prefixes and trees write, the same steps of the next layer write again, in
// another kernel.
template <int kDim, typename Rings>
DEVICE void AttendLayer(const LayerChainArgs& args, const Rings& rings,
                        RingPlace& place) {
  const AttendArgs& attend = args.attend;
  const LayerHeads heads{attend.kv_heads};
  const LayerCounters counters(args.chain);
  heads.ForEachOfBlock([&](int head) {
    PrepareHead<kDim>(args.prepare, heads, head);
    EndStep(counters.Prepared(head));
  });
  heads.ForItemsOfBlock(args.num_prefix_items, [&](int head, int i) {
    WaitForHead(counters.Prepared(head), heads, head);
    AttendPrefixItem<kDim>(attend, args.prefix_items[i], head, rings, place);
  });
  heads.ForEachOfBlock([&](int head) { EndStep(counters.PrefixesDone(head)); });
  heads.ForItemsOfBlock(args.num_tree_items, [&](int head, int i) {
    WaitForHead(counters.PrefixesDone(head), heads, head);
    AttendTreeItem<kDim>(attend, args.tree_items[i], head, rings, place);
  });
  EndStep(counters.Attended());
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_LAYER_ATTENTION_H_
