#include "coordinator/tenants/quota.h"

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

TEST(QuotaTest, AMinutesAmountMayBeUsedAtOnce) {
  Quota quota(60);
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(quota.WaitFor(1, At(0)), absl::ZeroDuration()) << i;
    quota.Use(1, At(0));
  }
  EXPECT_EQ(quota.WaitFor(1, At(0)), absl::Seconds(1));
  EXPECT_EQ(quota.WaitFor(1, At(0.5)), absl::Seconds(0.5));
  EXPECT_EQ(quota.WaitFor(1, At(1)), absl::ZeroDuration());
}

TEST(QuotaTest, WhatIsOwedIsPaidByTime) {
  Quota quota(60);
  quota.Use(180, At(0));
  EXPECT_EQ(quota.WaitFor(1, At(0)), absl::Seconds(121));
  EXPECT_EQ(quota.WaitFor(1, At(121)), absl::ZeroDuration());
}

TEST(QuotaTest, ALongPauseGivesAMinutesAmountAtMost) {
  Quota quota(60);
  quota.Use(60, At(0));
  quota.Use(60, At(3600));
  EXPECT_GT(quota.WaitFor(1, At(3600)), absl::ZeroDuration());
}

TEST(QuotaTest, WithoutALimitNothingWaits) {
  Quota quota;
  quota.Use(1e12, At(0));
  EXPECT_EQ(quota.WaitFor(1e12, At(0)), absl::ZeroDuration());
}

TEST(QuotaTest, AChangedLimitKeepsWhatIsOwed) {
  Quota quota(60);
  quota.Use(120, At(0));
  quota.SetLimit(600);
  EXPECT_EQ(quota.WaitFor(1, At(0)), absl::Seconds(6.1));
  quota.SetLimit(std::nullopt);
  EXPECT_EQ(quota.WaitFor(1, At(0)), absl::ZeroDuration());
  quota.SetLimit(60);
  EXPECT_EQ(quota.WaitFor(60, At(0)), absl::ZeroDuration());
}

}  // namespace
}  // namespace espalier::coordinator
