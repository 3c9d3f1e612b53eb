#include "coordinator/rounds/retry_advice.h"

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

TEST(RetryAdviceTest, ClientsComeOneByOneAsPlacesBecomeFree) {
  RetryAdvice advice(/*places=*/4, /*first=*/absl::Seconds(1));
  EXPECT_EQ(advice.Next(), absl::Seconds(1));
  EXPECT_EQ(advice.Next(), absl::Seconds(2));
  advice.PlaceFreed(absl::Seconds(8));  // one of four every two seconds
  EXPECT_EQ(advice.Next(), absl::Seconds(4)) << "one has a place by now";
  EXPECT_EQ(advice.Next(), absl::Seconds(6));
  for (int i = 0; i < 9; ++i) advice.PlaceFreed(absl::Seconds(8));
  EXPECT_EQ(advice.Next(), absl::Seconds(2));
}

TEST(RetryAdviceTest, FollowsTheRequests) {
  RetryAdvice advice(/*places=*/2, /*first=*/absl::Seconds(1));
  advice.PlaceFreed(absl::Seconds(2));
  const absl::Duration slow = advice.Next();
  for (int i = 0; i < 50; ++i) advice.PlaceFreed(absl::Milliseconds(200));
  const absl::Duration fast = advice.Next();
  EXPECT_EQ(slow, absl::Seconds(1));
  EXPECT_GT(fast, absl::Milliseconds(99));
  EXPECT_LT(fast, absl::Milliseconds(110));
}

TEST(RetryAdviceTest, IsBounded) {
  RetryAdvice advice(/*places=*/1, /*first=*/absl::Seconds(1));
  advice.PlaceFreed(absl::ZeroDuration());
  EXPECT_EQ(advice.Next(), absl::Milliseconds(10));
  for (int i = 0; i < 1000; ++i) advice.PlaceFreed(absl::Minutes(5));
  EXPECT_EQ(advice.Next(), absl::Minutes(1));
}

}  // namespace
}  // namespace espalier::coordinator
