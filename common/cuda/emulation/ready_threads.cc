#include "common/cuda/emulation/ready_threads.h"

#include <utility>

#include "common/base/check.h"

namespace espalier::cuda::emulation {

ReadyThreads::ReadyThreads(int warps, Dice& dice) : dice_(dice) {
  ESPALIER_CHECK(warps <= kMaxWarps);
  for (int i = 0; i < warps; ++i) {
    warp_at_[i] = i;
    std::swap(warp_at_[i], warp_at_[dice_.Draw(i + 1)]);
  }
  for (int i = 0; i < warps; ++i) place_of_[warp_at_[i]] = i;
  one_by_one_ = dice_.Draw(4) == 0;
  in_order_ = dice_.Draw(2) == 0;
}

void ReadyThreads::Choose() {
  const bool any = !in_order_ || dice_.Draw(16) == 0;
  const auto drawn = static_cast<int>(dice_.Draw(2 * 32 * 32));
  place_ = Next(places_, any ? drawn / 64 : 0);
  lane_ = drawn / 2 % 32;
  upwards_ = drawn % 2 == 0;
}

}  // namespace espalier::cuda::emulation
