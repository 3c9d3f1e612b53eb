#include "common/base/peak_memory.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(PeakMemory, CountsWhatWasTouchedAndGivenBack) {
  EXPECT_GT(PeakResidentBytes(), 0);
  constexpr int64_t kBytes = int64_t{256} << 20;
  {
    const std::vector<char> touched(kBytes, 1);
    ASSERT_EQ(std::count(touched.begin(), touched.end(), 1), kBytes);
  }
  EXPECT_GE(PeakResidentBytes(), kBytes);
}

}  // namespace
}  // namespace espalier
