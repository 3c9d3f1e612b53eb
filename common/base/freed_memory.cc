#include "common/base/freed_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace espalier {

HeapUse HeapUse::Now() {
  int64_t size = 0, resident = 0, shared = 0;  // pages
  std::ifstream("/proc/self/statm") >> size >> resident >> shared;
  const struct mallinfo2 heap = mallinfo2();
  return {.resident = (resident - shared) * sysconf(_SC_PAGESIZE),
          .in_use = static_cast<int64_t>(heap.uordblks + heap.hblkhd)};
}

bool FreedMemory::IsWorthGivingBack(const HeapUse& use) {
  least_ = std::min(least_, Held(use));
  return Held(use) - least_ >= kWorthwhile;
}

}  // namespace espalier
