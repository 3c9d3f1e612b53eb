#include "coordinator/control/estimate.h"

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

TEST(EstimateTest, BeginsWithAGuessThatTheFirstObservationReplaces) {
  Estimate estimate(/*memory=*/16, /*guess=*/0.5, /*spread=*/0.5);
  EXPECT_FALSE(estimate.is_known());
  EXPECT_EQ(estimate.mean(), 0.5);
  EXPECT_EQ(estimate.Bound(1), 1.5) << "two standard deviations at the least";
  estimate.Observe(3);
  EXPECT_TRUE(estimate.is_known());
  EXPECT_EQ(estimate.mean(), 3);
}

TEST(EstimateTest, BoundsComeCloserWithObservationsAndPartWithTime) {
  Estimate estimate(64, 0.5, 0.5);
  const auto width = [&] { return estimate.Bound(1) - estimate.Bound(-1); };
  estimate.Observe(1);
  const double of_one = width();
  for (int i = 0; i < 20; ++i) estimate.Observe(i % 2);
  const double of_many = width();
  EXPECT_LT(of_many, of_one);
  for (int i = 0; i < 500; ++i) estimate.Fade();
  EXPECT_GT(width(), of_many);
  EXPECT_NEAR(estimate.mean(), 0.5, 0.1) << "the mean stays";
}

TEST(EstimateTest, TheErrorIsThatOfTheMean) {
  Estimate estimate(1000, 0, 1);
  for (int i = 0; i < 400; ++i) estimate.Observe(i % 2 == 0 ? 1 : -1);
  EXPECT_NEAR(estimate.Bound(1), 1.0 / 20, 0.01);
}

TEST(EstimateTest, FollowsWhatChanges) {
  Estimate estimate(16, 0, 1);
  for (int i = 0; i < 100; ++i) estimate.Observe(0);
  for (int i = 0; i < 32; ++i) estimate.Observe(4);
  EXPECT_GT(estimate.mean(), 3);
}

TEST(EstimateTest, WhatOthersLearnedIsSoonOutweighed) {
  Estimate others(1000, 0, 1);
  for (int i = 0; i < 1000; ++i) others.Observe(0);
  Estimate own = others.Recalled(/*most_weight=*/8);
  EXPECT_EQ(own.weight(), 8);
  for (int i = 0; i < 8; ++i) own.Observe(2);
  EXPECT_GT(own.mean(), 0.9);
}

}  // namespace
}  // namespace espalier::coordinator
