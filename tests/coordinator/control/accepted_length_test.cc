#include "coordinator/control/accepted_length.h"

#include <vector>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

// 9 -> 1 -> 2 -> 3, 9 -> 4, and a duplicate 9 -> 1 -> 5
TokenTree Tree() {
  TokenTree tree = TokenTree::RootOnly(9);
  tree.Add(0, 1, -1);
  tree.Add(1, 2, -2);
  tree.Add(2, 3, -3);
  tree.Add(0, 4, -1);
  tree.Add(0, 1, -2);
  tree.Add(5, 5, -3);
  return tree;
}

int64_t Length(const std::vector<TokenId>& emitted) {
  return AcceptedLength(Tree(), emitted);
}

TEST(AcceptedLengthTest, CountsTokensInARowFromTheRoot) {
  EXPECT_EQ(Length({1, 2, 3, 7}), 3);
  EXPECT_EQ(Length({1, 2}), 2);
  EXPECT_EQ(Length({4, 2}), 1);
  EXPECT_EQ(Length({2, 3}), 0);
  EXPECT_EQ(Length({}), 0);
}

TEST(AcceptedLengthTest, FollowsDuplicates) { EXPECT_EQ(Length({1, 5}), 2); }

TEST(AcceptedLengthTest, RootAloneForetellsNothing) {
  EXPECT_EQ(AcceptedLength(TokenTree::RootOnly(9), std::vector<TokenId>{1}), 0);
}

}  // namespace
}  // namespace espalier::coordinator
