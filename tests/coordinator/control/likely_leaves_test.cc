#include "coordinator/control/likely_leaves.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LikelyLeavesTest, ARootAloneHasNone) {
  EXPECT_THAT(LikelyLeaves(TokenTree::RootOnly(3)), IsEmpty());
}

TEST(LikelyLeavesTest, TheLikeliestComesFirst) {
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 4, -0.5f);
  tree.Add(0, 5, -1.0f);
  tree.Add(1, 6, -2.0f);
  tree.Add(1, 7, -0.7f);
  EXPECT_THAT(LikelyLeaves(tree), ElementsAre(ElementsAre(4, 7), ElementsAre(5),
                                              ElementsAre(4, 6)));
}

TEST(LikelyLeavesTest, EqualOnesStayInOrder) {
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 9, -1.0f);
  tree.Add(0, 8, -1.0f);
  EXPECT_THAT(LikelyLeaves(tree), ElementsAre(ElementsAre(9), ElementsAre(8)));
}

}  // namespace
}  // namespace espalier::coordinator
