#include "verifier/costs/tree_routing.h"

#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

// One row reads 8 experts, 4 read 26, 8 read 42.
TreeRouting Routing() { return TreeRouting({{1, 8}, {4, 26}, {8, 42}}); }

TEST(TreeRoutingTest, TreesAreTakenForUnlikeRowsAtFirst) {
  EXPECT_EQ(Routing().UnlikeRows(1), 1);
  EXPECT_EQ(Routing().UnlikeRows(8), 8);
  EXPECT_EQ(Routing().UnlikeRows(64), 64);
}

TEST(TreeRoutingTest, AModelWithoutExpertsHasNoLikeRows) {
  TreeRouting routing;
  routing.ObserveTree(8, 0);
  EXPECT_EQ(routing.UnlikeRows(8), 8);
}

TEST(TreeRoutingTest, LearnsHowManyUnlikeRowsATreeIsWorth) {
  TreeRouting routing = Routing();
  routing.ObserveTree(7,
                      26);  // as 4 unlike rows: half of those after the first
  EXPECT_EQ(routing.UnlikeRows(7), 4);
  EXPECT_EQ(routing.UnlikeRows(9), 5);
  EXPECT_EQ(routing.UnlikeRows(1), 1);
}

TEST(TreeRoutingTest, CountsBetweenTwoMeasurementsAreInterpolated) {
  TreeRouting routing = Routing();
  routing.ObserveTree(11, 34);  // as 6 unlike rows
  EXPECT_EQ(routing.UnlikeRows(11), 6);
}

TEST(TreeRoutingTest, MoreThanUnlikeRowsReadIsNoMoreThanUnlike) {
  TreeRouting routing = Routing();
  routing.ObserveTree(4, 1000);
  EXPECT_EQ(routing.UnlikeRows(4), 4);
}

TEST(TreeRoutingTest, FewerThanOneRowReadsIsOneRow) {
  TreeRouting routing = Routing();
  routing.ObserveTree(4, 1);
  EXPECT_EQ(routing.UnlikeRows(16), 1);
}

TEST(TreeRoutingTest, FollowsAChangeOfTexts) {
  TreeRouting routing = Routing();
  routing.ObserveTree(7, 8);
  for (int i = 0; i < 100; ++i) routing.ObserveTree(7, 26);
  EXPECT_EQ(routing.UnlikeRows(7), 4);
}

TEST(TreeRoutingTest, PassesOfOneRowSayNothing) {
  TreeRouting routing = Routing();
  routing.ObserveTree(1, 8);
  EXPECT_EQ(routing.UnlikeRows(8), 8);
}

}  // namespace
}  // namespace espalier::verifier
