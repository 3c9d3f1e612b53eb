#ifndef ESPALIER_COMMON_CUDA_KERNELS_LAYER_PANELS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_LAYER_PANELS_H_

#include "common/cuda/kernels/attend_prefix.h"
#include "common/cuda/kernels/chain_rings.h"
#include "common/cuda/kernels/layer_heads.h"

namespace espalier::cuda {
namespace {

// The K/V pages of a sequence that an item of a layer reads.
struct ItemPages {
  int begin, count;

  // Returns the pages of a chunk that lie wholly in the prefix.
  DEVICE static ItemPages Of(const PrefixItem& item,
                             const PassSequence& sequence) {
    const int begin = ChunkBegin(item.chunk), end = ChunkBegin(item.chunk + 1);
    const int whole_pages = sequence.prefix / kPagePositions;
    return {begin, (end < whole_pages ? end : whole_pages) - begin};
  }
  // Returns the pages after the prefix.
  DEVICE static ItemPages Of(const TreeItem& /*item*/,
                             const PassSequence& sequence) {
    const int begin = sequence.prefix / kPagePositions;
    const int last = (sequence.prefix + sequence.rows - 1) / kPagePositions;
    return {begin, last - begin + 1};
  }
};

// The panels of an item in the pages of a chain's ring, in their order: of each
// K/V page the keys, then the values. A panel takes one or more pages of the
// ring, which need not follow each other in shared memory.
template <int kDim, typename Rings>
struct RingPanels {
  static constexpr int kPagesOfPanel = PanelBytes(kDim) / Rings::kPageBytes;
  static constexpr int kPositions = Rings::kPageBytes / (2 * kDim);
  static constexpr int kPagesOfItemPage = 2 * kPagesOfPanel;
  static_assert(kPagesOfPanel * kPositions == kPagePositions);
  static_assert(kPositions % 8 == 0);

  const Rings& rings;
  uint32_t page;  // of the ring, the first one

  DEVICE PanelRow Row(int panel, int position) const {
    const uint32_t at =
        page + panel * kPagesOfPanel +
        static_cast<uint32_t>(position) / static_cast<uint32_t>(kPositions);
    return {SharedAddress(rings.Page(at)) + position % kPositions * (kDim * 2),
            static_cast<uint32_t>(position & 7)};
  }
  // Until so many pages of the item are there.
  DEVICE void Wait(int pages) const {
    for (int i = 0; i < pages * kPagesOfItemPage; ++i) {
      rings.WaitForPage(page + i);
    }
  }
  // Called by all workers, when all have read the pages: one warpgroup gives
  // them back for all.
  DEVICE void GiveBack(int pages) const {
    NamedSync(1, kChainWorkers);
    if (threadIdx.x >= 128 || threadIdx.x % 32 != 0) return;
    for (int i = 0; i < pages * kPagesOfItemPage; ++i) {
      rings.GivePageBack(page + i);
    }
  }
};

// Brings panels as RingPanels has them. One thread.
template <int kDim, typename Rings>
struct PanelBringer {
  using Panels = RingPanels<kDim, Rings>;

  const LayerChainArgs& args;
  const Rings& rings;
  uint32_t page = 0;  // of the ring, the next one

  template <typename Item>
  DEVICE void Bring(const Item& item, int head) {
    const AttendArgs& attend = args.attend;
    const PassSequence sequence = attend.sequences[item.sequence];
    const ItemPages pages = ItemPages::Of(item, sequence);
    const int32_t* const table =
        attend.kv.page_table + sequence.table_begin + pages.begin;
    for (int panel = 0; panel < 2 * pages.count; ++panel) {
      const unsigned char* const from =
          PanelOf(attend, table[panel / 2], head, panel % 2);
      for (int i = 0; i < Panels::kPagesOfPanel; ++i, ++page) {
        rings.FillPage(page, from + i * Rings::kPageBytes);
      }
    }
  }

  // Pages that lie wholly in a prefix are there, like weights; others when the
  // head is prepared.
  DEVICE void BringAll() {
    const LayerHeads heads{args.attend.kv_heads};
    const LayerCounters counters(args.chain);
    heads.ForItemsOfBlock(args.num_prefix_items, [&](int head, int i) {
      Bring(args.prefix_items[i], head);
    });
    heads.ForItemsOfBlock(args.num_tree_items, [&](int head, int i) {
      CounterWait(counters.Prepared(head), heads.BlocksOf(head));
      FenceAsyncGlobal();
      Bring(args.tree_items[i], head);
    });
  }
};

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_LAYER_PANELS_H_
