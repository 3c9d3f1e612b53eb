#include "common/speculation/prefix_index.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace espalier {
namespace {

using Index = PrefixIndex<std::string>;
using Text = std::vector<TokenId>;

class PrefixIndexTest : public ::testing::Test {
 protected:
  Index::Block* Insert(const Index::Block* before, const Text& tokens,
                       const std::string& value, absl::string_view salt = "") {
    return index_.Insert({before, salt, tokens}, value);
  }
  const Index::Block* Find(const Index::Block* before, const Text& tokens,
                           absl::string_view salt = "") const {
    return index_.Find({before, salt, tokens});
  }

  Index index_;
};

TEST_F(PrefixIndexTest, ABlockIsFoundAfterItsTextOnly) {
  Index::Block* const first = Insert(nullptr, {1, 2}, "12");
  Index::Block* const other = Insert(nullptr, {3, 4}, "34");
  Index::Block* const second = Insert(first, {5, 6}, "1256");
  EXPECT_EQ(Find(nullptr, {1, 2}), first);
  EXPECT_EQ(Find(first, {5, 6}), second);
  EXPECT_EQ(Find(other, {5, 6}), nullptr);
  EXPECT_EQ(Find(nullptr, {5, 6}), nullptr);
  EXPECT_EQ(Find(first, {1, 2}), nullptr);
  EXPECT_EQ(second->value, "1256");
}

TEST_F(PrefixIndexTest, TextsOfDifferentSaltsHaveNoBlockInCommon) {
  Index::Block* const mine = Insert(nullptr, {1, 2}, "mine", "a");
  Index::Block* const theirs = Insert(nullptr, {1, 2}, "theirs", "b");
  Index::Block* const next = Insert(mine, {3, 4}, "next", "a");
  EXPECT_EQ(Find(nullptr, {1, 2}), nullptr);
  EXPECT_EQ(Find(nullptr, {1, 2}, "a"), mine);
  EXPECT_EQ(Find(nullptr, {1, 2}, "b"), theirs);
  EXPECT_EQ(Find(mine, {3, 4}, "a"), next);
  EXPECT_EQ(Find(theirs, {3, 4}, "b"), nullptr);
}

TEST_F(PrefixIndexTest, TheIdleBlockThatWasReleasedFirstGoesFirst) {
  Index::Block* const a = Insert(nullptr, {1}, "a");
  Index::Block* const b = Insert(nullptr, {2}, "b");
  Index::Block* const c = Insert(nullptr, {3}, "c");
  index_.Hold(c);
  EXPECT_TRUE(index_.Release(b));
  EXPECT_TRUE(index_.Release(a));
  EXPECT_FALSE(index_.Release(c));
  index_.Hold(b);  // used again
  EXPECT_TRUE(index_.Release(b));
  EXPECT_EQ(index_.num_idle(), 2);
  EXPECT_EQ(index_.EvictOldest(), "a");
  EXPECT_EQ(index_.EvictOldest(), "b");
  EXPECT_EQ(index_.num_idle(), 0);
  EXPECT_EQ(Find(nullptr, {1}), nullptr);
  EXPECT_EQ(Find(nullptr, {3}), c);
  EXPECT_EQ(index_.size(), 1);
}

TEST_F(PrefixIndexTest, WhatFollowedALostBlockIsNotFoundAfterItsSuccessor) {
  Index::Block* const first = Insert(nullptr, {1}, "old");
  Insert(first, {2}, "after the old");
  EXPECT_EQ(index_.Withdraw(first), "old");
  Index::Block* const again = Insert(nullptr, {1}, "new");
  EXPECT_EQ(Find(again, {2}), nullptr);
}

}  // namespace
}  // namespace espalier
