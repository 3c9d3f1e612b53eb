#include "common/nn/huge_page_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace espalier::nn {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kBlockBytes = int64_t{32} << 20;
constexpr int64_t kAlignment = 64;

int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

HugePageBlock AllocateHugePages(int64_t bytes) {
  const int64_t size = RoundUp(std::max<int64_t>(bytes, 1), kHugePage);
  void* memory = std::aligned_alloc(kHugePage, size);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, size, MADV_HUGEPAGE);  // advice: may be refused
  return HugePageBlock(static_cast<std::byte*>(memory));
}

std::byte* HugePageArena::Allocate(int64_t bytes) {
  const int64_t size = RoundUp(bytes, kAlignment);
  if (size > free_bytes_) {
    free_bytes_ = std::max(kBlockBytes, RoundUp(size, kHugePage));
    blocks_.push_back(AllocateHugePages(free_bytes_));
    free_ = blocks_.back().get();
  }
  std::byte* const memory = free_;
  free_ += size;
  free_bytes_ -= size;
  allocated_bytes_ += size;
  return memory;
}

}  // namespace espalier::nn
