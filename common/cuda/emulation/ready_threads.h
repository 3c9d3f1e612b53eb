#ifndef ESPALIER_COMMON_CUDA_EMULATION_READY_THREADS_H_
#define ESPALIER_COMMON_CUDA_EMULATION_READY_THREADS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>

namespace espalier::cuda::emulation {

// A random number for every step of a thread, so a cheap one.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  // Returns a number below `end`.
  size_t Draw(size_t end) {
    return random_() * end >> 31;  // of 31 bits
  }

 private:
  std::minstd_rand random_;
};

// The threads of a block that can go on, and which of them does: one drawn from
// all at each step, or the lanes of a drawn warp, upwards or downwards, or of
// the warp that comes first in a drawn order, which so gets ahead of the others
// as far as barriers let it. Which of these is drawn once for a block.
class ReadyThreads {
 public:
  static constexpr int kMaxWarps = 32;
  using Lanes = uint32_t;  // a bit for each

  ReadyThreads(int warps, Dice& dice);

  bool empty() const { return places_ == 0; }
  void Add(int warp, Lanes lanes) {
    const int place = place_of_[warp];
    lanes_[place] |= lanes;
    if (lanes_[place] != 0) places_ |= 1u << place;
  }

  // The next to be taken is of the warp of the last one.
  bool goes_on_in_warp() const { return !one_by_one_ && lanes_[place_] != 0; }
  // REQUIRES: not empty.
  int Take() {
    if (!goes_on_in_warp()) Choose();
    return TakeOfWarp();
  }
  // REQUIRES: goes_on_in_warp().
  int TakeOfWarp() {
    Lanes& lanes = lanes_[place_];
    lane_ = upwards_ ? Next(lanes, lane_) : Last(lanes, lane_);
    lanes &= ~(1u << lane_);
    if (lanes == 0) places_ &= ~(1u << place_);
    return warp_at_[place_] * 32 + lane_;
  }

 private:
  // Returns the first bit that is set from `from` on, around the end.
  static int Next(uint32_t bits, int from) {
    return (std::countr_zero(std::rotr(bits, from)) + from) % 32;
  }
  // Returns the last bit that is set up to `to`, around the start.
  static int Last(uint32_t bits, int to) {
    return (to - std::countl_zero(std::rotl(bits, 31 - to)) + 32) % 32;
  }
  void Choose();

  Dice& dice_;
  std::array<int, kMaxWarps> warp_at_ = {}, place_of_ = {};
  std::array<Lanes, kMaxWarps> lanes_ = {};  // at each place
  uint32_t places_ = 0;                      // that have any
  int place_ = 0, lane_ = 0;                 // of the last that was taken
  bool upwards_ = false;                     // the lanes of the warp
  bool one_by_one_ = false, in_order_ = false;
};

}  // namespace espalier::cuda::emulation

#endif  // ESPALIER_COMMON_CUDA_EMULATION_READY_THREADS_H_
