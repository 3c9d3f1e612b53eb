#include "tests/testing/fake_executor.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;

TEST(FakeExecutorTest, RunsTasksInTheOrderTheyArePosted) {
  FakeExecutor executor;
  std::vector<int> ran;
  for (int i = 0; i < 3; ++i) executor.Post([&ran, i] { ran.push_back(i); });
  EXPECT_THAT(ran, ElementsAre());
  executor.RunUntilIdle();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
}

TEST(FakeExecutorTest, RunsTimersOnlyWhenTheClockReachesThem) {
  FakeExecutor executor;
  const absl::Time start = executor.Now();
  std::vector<absl::Time> ran;
  const auto note = [&] { ran.push_back(executor.Now()); };
  executor.PostAt(start + absl::Seconds(2), note);
  executor.PostAt(start + absl::Seconds(1), note);
  executor.RunUntilIdle();
  EXPECT_THAT(ran, ElementsAre());
  executor.AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(ran, ElementsAre(start + absl::Seconds(1)));
  executor.AdvanceTo(start + absl::Seconds(5));
  EXPECT_THAT(ran,
              ElementsAre(start + absl::Seconds(1), start + absl::Seconds(2)));
  EXPECT_EQ(executor.Now(), start + absl::Seconds(5));
  EXPECT_EQ(executor.num_pending(), 0);
}

TEST(FakeExecutorTest, RunsWhatATaskPostsBeforeLaterTimers) {
  FakeExecutor executor;
  std::vector<int> ran;
  executor.PostAt(executor.Now() + absl::Seconds(1), [&] {
    ran.push_back(1);
    executor.Post([&] { ran.push_back(2); });
  });
  executor.PostAt(executor.Now() + absl::Seconds(2), [&] { ran.push_back(3); });
  executor.AdvanceBy(absl::Seconds(3));
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace espalier
