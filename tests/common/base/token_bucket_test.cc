#include "common/base/token_bucket.h"

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(TokenBucketTest, AllowsABurstAndThenARate) {
  TokenBucket bucket(3, 2);
  absl::Time now = absl::FromUnixSeconds(1000);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.Take(now)) << i;
  EXPECT_FALSE(bucket.Take(now));
  now += absl::Milliseconds(499);
  EXPECT_FALSE(bucket.Take(now));
  now += absl::Milliseconds(2);
  EXPECT_TRUE(bucket.Take(now));
  EXPECT_FALSE(bucket.Take(now));
  now += absl::Hours(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.Take(now)) << i;
  EXPECT_FALSE(bucket.Take(now));
}

}  // namespace
}  // namespace espalier
