#include "common/base/freed_memory.h"

#include <malloc.h>

#include <memory>
#include <vector>

#include "absl/base/config.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define ESPALIER_FOREIGN_HEAP
#endif

constexpr int64_t kMib = int64_t{1} << 20;

HeapUse Use(int64_t resident_mib, int64_t in_use_mib) {
  return {.resident = resident_mib * kMib, .in_use = in_use_mib * kMib};
}

TEST(FreedMemoryTest, WhatIsInUseIsNotGivenBack) {
  FreedMemory memory;
  memory.GaveBack(Use(30, 20));
  EXPECT_FALSE(memory.IsWorthGivingBack(Use(130, 120)));
  EXPECT_FALSE(memory.IsWorthGivingBack(Use(37, 20)));
  EXPECT_TRUE(memory.IsWorthGivingBack(Use(38, 20)));
}

// Memory was given back while calls held 100 MiB, and they ended afterwards,
// without any further traffic.
TEST(FreedMemoryTest, WhatIsFreedLaterIsGivenBackLater) {
  FreedMemory memory;
  memory.GaveBack(Use(130, 120));
  EXPECT_TRUE(memory.IsWorthGivingBack(Use(130, 20)));
  memory.GaveBack(Use(30, 20));
  EXPECT_FALSE(memory.IsWorthGivingBack(Use(30, 20)));
}

// The rest is in pages that are partly in use.
TEST(FreedMemoryTest, WhatCannotBeGivenBackIsNotTriedAgain) {
  FreedMemory memory;
  EXPECT_TRUE(memory.IsWorthGivingBack(Use(130, 20)));
  memory.GaveBack(Use(90, 20));
  EXPECT_FALSE(memory.IsWorthGivingBack(Use(90, 20)));
  EXPECT_FALSE(memory.IsWorthGivingBack(Use(40, 20)));
  EXPECT_TRUE(memory.IsWorthGivingBack(Use(90, 20)));
}

TEST(FreedMemoryTest, TheProcessKnowsWhatItUses) {
#if defined(ESPALIER_FOREIGN_HEAP)
  GTEST_SKIP() << "sanitizers have a heap of their own";
#endif
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 64 * 1024; ++i) {
    blocks.push_back(std::make_unique<char[]>(1024));
  }
  const HeapUse full = HeapUse::Now();
  EXPECT_GE(full.in_use, 64 * kMib);
  EXPECT_GE(full.resident, 64 * kMib);
  const std::unique_ptr<char[]> last = std::move(blocks.back());
  blocks.clear();
  const HeapUse freed = HeapUse::Now();
  EXPECT_LT(freed.in_use, full.in_use - 60 * kMib);
  FreedMemory memory;
  memory.GaveBack(full);
  EXPECT_TRUE(memory.IsWorthGivingBack(freed));
  malloc_trim(0);
  EXPECT_LT(HeapUse::Now().resident, full.resident - 60 * kMib);
}

}  // namespace
}  // namespace espalier
