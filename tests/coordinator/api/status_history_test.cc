#include "coordinator/api/status_history.h"

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

TEST(StatusHistory, KeepsTheLastSamples) {
  StatusHistory history;
  for (size_t i = 0; i < StatusHistory::kLength + 3; ++i) {
    history.Add({.at_s = static_cast<double>(i)});
  }
  const auto samples = history.Samples();
  EXPECT_EQ(samples.size(), StatusHistory::kLength);
  EXPECT_EQ(samples.front().at_s, 3);
}

}  // namespace
}  // namespace espalier::coordinator
