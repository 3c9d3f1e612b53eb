#ifndef ESPALIER_COMMON_CUDA_KERNELS_CHAIN_STRIP_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CHAIN_STRIP_H_

#include "common/cuda/kernels/chain_rings.h"
#include "common/cuda/kernels/e4m3_product.h"

namespace espalier::cuda {
namespace {

// The place in the rings before a part.
struct RingPlace {
  uint32_t page = 0, slot = 0;
};

// A warpgroup's pages and slots of a part, tile by tile.
template <typename Rings>
class TilesOfStrip {
 public:
  DEVICE TilesOfStrip(const ProductPart& part, const Rings& rings,
                      const RingPlace& place)
      : rings_(rings),
        count_(part.tiles),
        strips_(part.strips),
        page_(place.page + threadIdx.x / 128),
        slot_(place.slot) {}

  DEVICE int count() const { return count_; }
  DEVICE void Wait(int tile) const {
    rings_.WaitForPage(page_ + tile * strips_);
    rings_.WaitForSlot(slot_ + tile);
  }
  DEVICE const unsigned char* Weights(int tile) const {
    return rings_.Page(page_ + tile * strips_);
  }
  DEVICE const unsigned char* Rows(int tile) const {
    return rings_.Slot(slot_ + tile);
  }
  DEVICE void GiveBack(int tile) const {
    if (threadIdx.x % 32 != 0) return;
    rings_.GivePageBack(page_ + tile * strips_);
    rings_.GiveSlotBack(slot_ + tile);
  }
  // Gives back all slots of a part in which the warpgroup has no strip. One
  // lane waits: others could miss a phase.
  DEVICE void PassSlots() const {
    if (threadIdx.x % 32 != 0) return;
    for (int tile = 0; tile < count_; ++tile) {
      rings_.WaitForSlot(slot_ + tile);
      rings_.GiveSlotBack(slot_ + tile);
    }
  }

 private:
  const Rings& rings_;
  const int count_, strips_;
  const uint32_t page_, slot_;
};

// Multiplies a strip by the rows, over all tiles, as MultiplyTiles does.
template <int kRows, typename Tiles>
DEVICE void MultiplyStrip(const Tiles& tiles, float (&sums)[kRows / 2]) {
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  HoldSums(sums);
  for (int tile = 0; tile < tiles.count(); ++tile) {
    const uint32_t strip = SharedAddress(tiles.Weights(tile));
    const uint32_t rows = SharedAddress(tiles.Rows(tile));
    tiles.Wait(tile);
    GroupFence();
#pragma unroll
    for (int k = 0; k < kTileColumns / 16; ++k) {
      GroupMultiply<kRows>(sums, TileDescriptor(strip + k * 32),
                           TileDescriptor(rows + k * 32));
    }
    GroupCommit();
    // The tile before has been read by now; this one goes on.
    GroupWait<1>();
    if (tile > 0) tiles.GiveBack(tile - 1);
  }
  GroupWait<0>();
  HoldSums(sums);
  tiles.GiveBack(tiles.count() - 1);
}

// Multiplies a strip in e4m3, as MultiplyE4m3Tiles does.
template <int kRows, typename Tiles>
DEVICE void MultiplyE4m3Strip(const Tiles& tiles, float (&sums)[kRows / 2]) {
  constexpr int kHeld = HeldSteps(kRows);
  uint32_t held[kHeld][4];
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  HoldSums(sums);
  for (int tile = 0; tile < tiles.count(); ++tile) {
    const uint32_t rows = SharedAddress(tiles.Rows(tile));
    const Piece* const pieces =
        reinterpret_cast<const Piece*>(tiles.Weights(tile)) + threadIdx.x % 128;
    tiles.Wait(tile);
#pragma unroll 1
    for (int first = 0; first < kTileColumns / 16; first += kHeld) {
      Piece codes[kHeld / 2];
#pragma unroll
      for (int i = 0; i < kHeld / 2; ++i) {
        codes[i] = pieces[(first / 2 + i) * 128];
      }
      GroupWait<0>();
      if (first == 0 && tile > 0) tiles.GiveBack(tile - 1);
      WidenPieces(codes, held);
      HoldFactors(held);
      GroupFence();
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        GroupMultiplyHeld<kRows>(sums, held[k],
                                 TileDescriptor(rows + (first + k) * 32));
      }
      GroupCommit();
    }
  }
  GroupWait<0>();
  HoldSums(sums);
  tiles.GiveBack(tiles.count() - 1);
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CHAIN_STRIP_H_
