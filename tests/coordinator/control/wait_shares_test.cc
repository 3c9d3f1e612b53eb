#include "coordinator/control/wait_shares.h"

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::DoubleNear;
using ::testing::Optional;

constexpr auto kAwaited = DraftCall::Attention::kAwaited;

DrafterReturn Answered(int waited_ms, int compute_ms, uint64_t cpu_group) {
  DrafterReturn r = {.attention = kAwaited};
  r.waited = absl::Milliseconds(waited_ms);
  r.compute = absl::Milliseconds(compute_ms);
  r.cpu_group = cpu_group;
  return r;
}

testing::Matcher<std::optional<double>> Ms(double ms) {
  return Optional(DoubleNear(1e-3 * ms, 1e-9));
}

// The group was waited for for 12 ms and computed for 8.
TEST(WaitSharesTest, ThoseOnTheSameCoresShareTheirWait) {
  const std::vector<DrafterReturn> returns = {
      Answered(6, 2, 1), Answered(12, 6, 1), Answered(5, 1, 2),
      Answered(4, 1, 0), Answered(3, 1, 0)};
  EXPECT_THAT(WaitShares(returns),
              testing::ElementsAre(Ms(3), Ms(9), Ms(5), Ms(4), Ms(3)));
}

TEST(WaitSharesTest, OneThatDidNotAnswerHasTheWholeWait) {
  EXPECT_THAT(WaitShares(std::vector{Answered(7, 0, 1)}),
              testing::ElementsAre(Ms(7)));
}

TEST(WaitSharesTest, ThoseThatTheRoundDidNotWaitForHaveNone) {
  DrafterReturn beside = Answered(7, 7, 1);
  beside.attention = DraftCall::Attention::kAsked;
  const DrafterReturn no_answer = {.attention = kAwaited};
  EXPECT_THAT(WaitShares(std::vector{beside, no_answer, Answered(5, 1, 1)}),
              testing::ElementsAre(std::nullopt, std::nullopt, Ms(5)));
}

}  // namespace
}  // namespace espalier::coordinator
