#ifndef ESPALIER_COMMON_CUDA_KERNELS_CHAIN_STRIP_H_
#define ESPALIER_COMMON_CUDA_KERNELS_CHAIN_STRIP_H_

#include "common/cuda/kernels/chain_rings.h"
#include "common/cuda/kernels/product.h"

namespace espalier::cuda {
namespace {

// The place in the rings before a part.
struct RingPlace {
  uint32_t page = 0, slot = 0;
};

// A warpgroup's tiles of a part, in pages and slots; see MultiplyTiles.
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

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_CHAIN_STRIP_H_
