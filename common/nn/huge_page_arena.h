#ifndef ESPALIER_COMMON_NN_HUGE_PAGE_ARENA_H_
#define ESPALIER_COMMON_NN_HUGE_PAGE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace espalier::nn {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using HugePageBlock = std::unique_ptr<std::byte, FreeDeleter>;

// At least `bytes`, uninitialised, aligned to 2 MiB, and the kernel is asked to
// use huge pages: streaming weights through 4 KiB pages is bound by the TLB.
HugePageBlock AllocateHugePages(int64_t bytes);

// Memory for the weights of one model, which all die together. What is
// allocated in the order of use lies in the order of use, so that a prefetch
// past the end of one matrix hits the next. One thread.
class HugePageArena {
 public:
  // Uninitialised, aligned to 64 bytes; lives as long as the arena.
  std::byte* Allocate(int64_t bytes);

  int64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  std::vector<HugePageBlock> blocks_;
  std::byte* free_ = nullptr;
  int64_t free_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
};

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_HUGE_PAGE_ARENA_H_
