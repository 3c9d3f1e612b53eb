#include "coordinator/peers/acceptance_tracker.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Text = std::vector<TokenId>;

// 9 -> 1 -> 2 -> 3
TokenTree Chain() {
  TokenTree tree = TokenTree::RootOnly(9);
  tree.Add(0, 1, -1);
  tree.Add(1, 2, -2);
  tree.Add(2, 3, -3);
  return tree;
}

TEST(AcceptanceTrackerTest, WaitsUntilTheTextSettlesATree) {
  AcceptanceTracker tracker;
  tracker.Add(Chain(), 2);
  EXPECT_THAT(tracker.Settle(Text{7, 9, 1}), IsEmpty());
  EXPECT_THAT(tracker.Settle(Text{7, 9, 1, 2}), IsEmpty());
  EXPECT_THAT(tracker.Settle(Text{7, 9, 1, 2, 5}), ElementsAre(2));
  EXPECT_THAT(tracker.Settle(Text{7, 9, 1, 2, 5, 6}), IsEmpty());
}

TEST(AcceptanceTrackerTest, TreeFollowedToItsEndIsSettled) {
  AcceptanceTracker tracker;
  tracker.Add(Chain(), 1);
  EXPECT_THAT(tracker.Settle(Text{9, 1, 2, 3}), ElementsAre(3));
}

TEST(AcceptanceTrackerTest, SettlesEachTreeOnItsOwn) {
  AcceptanceTracker tracker;
  tracker.Add(Chain(), 1);
  tracker.Add(TokenTree::RootOnly(9), 1);
  tracker.Add(Chain(), 3);
  EXPECT_THAT(tracker.Settle(Text{9, 1, 9}), ElementsAre(1, 0));
  EXPECT_THAT(tracker.Settle(Text{9, 1, 9, 4}), ElementsAre(0));
}

}  // namespace
}  // namespace espalier::coordinator
