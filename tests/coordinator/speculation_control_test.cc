#include "coordinator/speculation_control.h"

#include <vector>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

TEST(SpeculationControlTest, ThePaceBeginsBehindThePromptsPass) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0});
  const std::vector<DrafterReturn> returns(1);
  control.Learn(
      {.returns = returns, .num_tokens = 1, .duration = absl::Seconds(1)});
  EXPECT_EQ(record.kind(true).pace.tokens_per_second(), 0);
  control.Learn({.returns = returns,
                 .num_tokens = 3,
                 .duration = absl::Milliseconds(30)});
  EXPECT_NEAR(record.kind(true).pace.tokens_per_second(), 100, 1e-9);
  EXPECT_EQ(record.kind(false).pace.tokens_per_second(), 0);
}

}  // namespace
}  // namespace espalier::coordinator
