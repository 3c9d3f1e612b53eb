#include "common/cuda/emulation/ready_threads.h"

#include <bit>
#include <utility>

#include "common/base/check.h"

namespace espalier::cuda::emulation {
namespace {

// Returns the first bit that is set from `from` on, around the end.
int Next(uint32_t bits, int from) {
  return (std::countr_zero(std::rotr(bits, from)) + from) % 32;
}

// Returns the last bit that is set up to `to`, around the start.
int Last(uint32_t bits, int to) {
  return (to - std::countl_zero(std::rotl(bits, 31 - to)) + 32) % 32;
}

}  // namespace

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

int ReadyThreads::Take() {
  if (!goes_on_in_warp()) Choose();
  lane_ = upwards_ ? Next(lanes_[place_], lane_) : Last(lanes_[place_], lane_);
  lanes_[place_] &= ~(1u << lane_);
  if (lanes_[place_] == 0) places_ &= ~(1u << place_);
  return warp_at_[place_] * 32 + lane_;
}

void ReadyThreads::Choose() {
  const bool any = !in_order_ || dice_.Draw(16) == 0;
  const auto drawn = static_cast<int>(dice_.Draw(2 * 32 * 32));
  place_ = Next(places_, any ? drawn / 64 : 0);
  lane_ = drawn / 2 % 32;
  upwards_ = drawn % 2 == 0;
}

}  // namespace espalier::cuda::emulation
