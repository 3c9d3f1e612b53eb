// How blocks of a kernel that stays wait for each other, and some warps of a
// block: as device.h, an instruction each beside its meaning. All blocks of
// such a kernel are on the device at once (LaunchShape::is_resident).
#ifndef ESPALIER_COMMON_CUDA_COUNTERS_H_
#define ESPALIER_COMMON_CUDA_COUNTERS_H_

#include "common/cuda/device.h"

namespace espalier::cuda {
namespace {

// Adds one to a counter in the device's memory. What this thread wrote, and saw
// others write, is there for those who saw the sum.
DEVICE void CounterAdd(uint32_t* counter) {
#if defined(__CUDACC__)
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter)
               : "memory");
#else
  ++*counter;
  Block::Current().NoteCounterAdd();
#endif
}

// Waits until a counter is at least so large. Who waits for some seconds, in a
// kernel of milliseconds, waits for ever: the kernel ends with an error then,
// which the device's Wait reports.
DEVICE void CounterWait(const uint32_t* counter, uint32_t least) {
#if defined(__CUDACC__)
  constexpr int kMaxPolls = 1 << 24;  // of half a microsecond or more
  for (int polls = 0;; ++polls) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(counter)
                 : "memory");
    if (value >= least) return;
    if (polls == kMaxPolls) asm volatile("trap;");
  }
#else
  Block& block = Block::Current();
  while (*counter < least) block.PollCounter();
  block.NoteCounterSeen();
#endif
}

// Adds one to a counter, and returns whether that made it `last`.
DEVICE bool CounterReaches(uint32_t* counter, uint32_t last) {
#if defined(__CUDACC__)
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before + 1 == last;
#else
  return ++*counter == last;
#endif
}

// Puts ordinary writes before bulk copies that read them. Called by who wrote,
// before its counter, and by who copies, after it.
DEVICE void FenceAsyncGlobal() {
#if defined(__CUDACC__)
  asm volatile("fence.proxy.async.global;" ::: "memory");
#else
  Block::Current().FenceAsync();
#endif
}

// Lets some warps of the block wait for each other. `barrier`: 1 to 15, as 0 is
// that of __syncthreads. `threads`: of all these warps.
DEVICE void NamedSync(int barrier, int threads) {
#if defined(__CUDACC__)
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#else
  Block::Current().MeetNamed(barrier, threads);
#endif
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_COUNTERS_H_
