#include "common/speculation/pass_cost.h"

#include "gtest/gtest.h"

namespace espalier {
namespace {

using absl::Milliseconds;

TEST(PassTime, IsLinearBetweenThePointsAndAlongTheLastTwoBehindThem) {
  const PassCosts costs = {
      {2, Milliseconds(10)}, {4, Milliseconds(11)}, {8, Milliseconds(19)}};
  EXPECT_EQ(PassTime(costs, 1), Milliseconds(10));
  EXPECT_EQ(PassTime(costs, 2), Milliseconds(10));
  EXPECT_EQ(PassTime(costs, 3), Milliseconds(10.5));
  EXPECT_EQ(PassTime(costs, 4), Milliseconds(11));
  EXPECT_EQ(PassTime(costs, 5), Milliseconds(13));
  EXPECT_EQ(PassTime(costs, 8), Milliseconds(19));
  EXPECT_EQ(PassTime(costs, 12), Milliseconds(27));
}

TEST(PassTime, BehindTheLastPointRowsAreNeitherFreeNorDearerThanTheFirst) {
  const PassCosts flat = {
      {1, Milliseconds(10)}, {5, Milliseconds(18)}, {6, Milliseconds(18)}};
  EXPECT_EQ(PassTime(flat, 11), Milliseconds(18 + 8));
  const PassCosts steep = {
      {1, Milliseconds(10)}, {4, Milliseconds(12)}, {5, Milliseconds(50)}};
  EXPECT_EQ(PassTime(steep, 10), Milliseconds(100));
}

TEST(PassTime, OfOnePointIsInProportionToTheRows) {
  EXPECT_EQ(PassTime({{1, Milliseconds(7)}}, 3), Milliseconds(21));
}

TEST(PassTime, OfNoPointIsZero) {
  EXPECT_EQ(PassTime({}, 3), absl::ZeroDuration());
}

}  // namespace
}  // namespace espalier
