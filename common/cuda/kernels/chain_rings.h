#ifndef ESPALIER_COMMON_CUDA_KERNELS_CHAIN_RINGS_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CHAIN_RINGS_H_

#include "common/cuda/chain_shape.h"
#include "common/cuda/counters.h"
#include "common/cuda/kernels/product.h"

namespace espalier::cuda {
namespace {

// Warpgroups of a chain's block that multiply, a strip of weights each.
inline constexpr int kChainGroups = 3;
inline constexpr int kChainWorkers = kChainGroups * 128;  // threads
// Two more warps: one thread of each brings weights and rows.
inline constexpr int kChainThreads = kChainWorkers + 64;

// No ring has more pages.
inline constexpr int kMaxChainPages = 64;

// The shared memory of a chain's block: a ring of pages, each a tile of
// weights of so many bytes, and one of slots, each a tile of rows. Both run on
// over the ends of products. `kMoreBytes` are for other things.
template <int kRows, int kWeightBytes, int kMoreBytes = 0,
          int kMaxPages = kMaxChainPages>
struct ChainRings {
  static constexpr int kPageBytes = kWeightBytes;
  static constexpr int kSlotBytes = kRows * kTileRowBytes;
  static constexpr int kSlots = kChainSlots;
  static constexpr int kPages =
      std::min(ChainPages(kRows, kPageBytes, kMoreBytes), kMaxPages);
  static constexpr int kSharedBytes =
      kPages * kPageBytes + kSlots * kSlotBytes + kChainRestBytes + kMoreBytes;
  static constexpr int kSums = 32;  // of a row's warps, for two rows
  static_assert(2 * (kPages + kSlots) * 8 + 4 * kSums <= kChainRestBytes);

  unsigned char *pages, *slots;
  uint64_t *full_pages, *full_slots;    // a tile is there
  uint64_t *empty_pages, *empty_slots;  // all that read it have done so
  float* sums;
  unsigned char* more;

  DEVICE explicit ChainRings(unsigned char* shared)
      : pages(shared),
        slots(pages + kPages * kPageBytes),
        full_pages(reinterpret_cast<uint64_t*>(slots + kSlots * kSlotBytes)),
        full_slots(full_pages + kPages),
        empty_pages(full_slots + kSlots),
        empty_slots(empty_pages + kPages),
        sums(reinterpret_cast<float*>(empty_slots + kSlots)),
        more(slots + kSlots * kSlotBytes + kChainRestBytes) {}

  // Called by one thread. A page is read by a warpgroup, a slot by all.
  DEVICE void Init() const {
    for (int i = 0; i < kPages; ++i) {
      BarrierInit(&full_pages[i], 1);
      BarrierInit(&empty_pages[i], 4);
    }
    for (int i = 0; i < kSlots; ++i) {
      BarrierInit(&full_slots[i], 1);
      BarrierInit(&empty_slots[i], 4 * kChainGroups);
    }
    FenceBarrierInit();
  }
  DEVICE unsigned char* Page(uint32_t page) const {
    return pages + page % kPages * kPageBytes;
  }
  DEVICE unsigned char* Slot(uint32_t slot) const {
    return slots + slot % kSlots * kSlotBytes;
  }
  // A page or slot has a phase for each time that its place is filled.
  DEVICE void WaitForPage(uint32_t page) const {
    BarrierWait(&full_pages[page % kPages], page / kPages & 1);
  }
  DEVICE void WaitForSlot(uint32_t slot) const {
    BarrierWait(&full_slots[slot % kSlots], slot / kSlots & 1);
  }
  DEVICE void GivePageBack(uint32_t page) const {
    BarrierArrive(&empty_pages[page % kPages]);
  }
  DEVICE void GiveSlotBack(uint32_t slot) const {
    BarrierArrive(&empty_slots[slot % kSlots]);
  }
  // Copies a tile to where it belongs as soon as there is room.
  DEVICE void FillPage(uint32_t page, const unsigned char* from) const {
    if (page >= kPages) {
      BarrierWait(&empty_pages[page % kPages], (page / kPages - 1) & 1);
    }
    uint64_t* const full = &full_pages[page % kPages];
    BarrierArriveExpect(full, kPageBytes);
    BulkCopy(Page(page), from, kPageBytes, full);
  }
  DEVICE void FillSlot(uint32_t slot, const unsigned char* from) const {
    if (slot >= kSlots) {
      BarrierWait(&empty_slots[slot % kSlots], (slot / kSlots - 1) & 1);
    }
    uint64_t* const full = &full_slots[slot % kSlots];
    BarrierArriveExpect(full, kSlotBytes);
    BulkCopy(Slot(slot), from, kSlotBytes, full);
  }
};

// act(part): each part of a product that is this block's, in their order.
template <typename Act>
DEVICE void ForPartsOfBlock(const ProductArgs& product, Act act) {
  const int groups = ProductGroups(product.outputs);
  for (int block = blockIdx.x;; block += gridDim.x) {
    const ProductPart part(product, groups, block, /*block_of_rows=*/0);
    if (part.strips <= 0) return;  // after the last part
    act(part);
  }
}

// act(number, from): each tile of a product's weights that is this block's, in
// the order in which tiles are read. `number` goes on behind them.
template <typename Rings, typename Act>
DEVICE void ForWeightsOfBlock(const ProductArgs& product, uint32_t& number,
                              Act act) {
  const int64_t all_tiles = product.inputs / kTileColumns;
  ForPartsOfBlock(product, [&](const ProductPart& part) {
    for (int tile = part.first_tile; tile < part.first_tile + part.tiles;
         ++tile) {
      for (int strip = 0; strip < part.strips; ++strip, ++number) {
        const int64_t at = (part.first_strip + strip) * all_tiles + tile;
        act(number, product.weights + at * Rings::kPageBytes);
      }
    }
  });
}

// Brings the weights of all products. They wait for nobody, so the ring fills
// with the next product's while rows of this one are not there yet. Called by
// one thread. `page`: the first one.
template <typename Rings>
DEVICE void BringWeights(const ChainArgs& args, const Rings& rings,
                         uint32_t page) {
  for (int step = 0; step < args.num_steps; ++step) {
    if (IsChainNorm(step)) continue;
    ForWeightsOfBlock<Rings>(args.products[ChainProduct(step)], page,
                             [&](uint32_t to, const unsigned char* from) {
                               rings.FillPage(to, from);
                             });
  }
}

// Brings the rows of all products, each when the step before it is done by all
// blocks. Called by one thread. `first_done`: of the step before the first, or
// null: its rows are there.
template <typename Rings>
DEVICE void BringRows(const ChainArgs& args, const Rings& rings,
                      const uint32_t* first_done) {
  uint32_t slot = 0;
  for (int step = 0; step < args.num_steps; ++step) {
    if (IsChainNorm(step)) continue;
    const ProductArgs& product = args.products[ChainProduct(step)];
    const uint32_t* const done =
        step == 0 ? first_done : &args.counters[step - 1];
    bool is_there = done == nullptr;
    ForPartsOfBlock(product, [&](const ProductPart& part) {
      if (!is_there) {
        CounterWait(done, gridDim.x);
        FenceAsyncGlobal();
        is_there = true;
      }
      for (int tile = part.first_tile; tile < part.first_tile + part.tiles;
           ++tile, ++slot) {
        rings.FillSlot(slot,
                       product.activations + int64_t{tile} * Rings::kSlotBytes);
      }
    });
  }
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CHAIN_RINGS_H_
