#ifndef ESPALIER_COMMON_BASE_SPIN_H_
#define ESPALIER_COMMON_BASE_SPIN_H_

#include <sched.h>

namespace espalier {

// Looks again and again until `is_over()`, or until `is_late()`, which is asked
// now and then. Yields, so that the thread that it waits for can run on this
// core.
template <typename Condition, typename Limit>
void SpinUntil(Condition is_over, Limit is_late) {
  constexpr int kLooksPerYield = 64;
  do {
    for (int i = 0; i < kLooksPerYield; ++i) {
      if (is_over()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    sched_yield();
  } while (!is_late());
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_SPIN_H_
