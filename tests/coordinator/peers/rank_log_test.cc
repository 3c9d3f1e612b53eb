#include "coordinator/peers/rank_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;

// Returns rows with these tokens, one each.
TokenRanks Rows(std::vector<TokenId> tokens) {
  TokenRanks rows = {.top = 1};
  for (TokenId token : tokens) {
    rows.contexts.insert(rows.contexts.end(), {0, token});
    rows.log_probs.push_back(-1);
  }
  rows.tokens = std::move(tokens);
  return rows;
}

TEST(RankLog, GivesWhatADrafterLacks) {
  RankLog log;
  EXPECT_TRUE(log.From(0).empty());
  log.Add(Rows({1, 2, 3}));
  log.Add(Rows({}));
  log.Add(Rows({4}));
  EXPECT_EQ(log.end(), 4);
  EXPECT_EQ(log.From(0), Rows({1, 2, 3, 4}));
  EXPECT_EQ(log.From(3), Rows({4}));
  EXPECT_TRUE(log.From(4).empty());
}

TEST(RankLog, ReleasedRowsAreGone) {
  RankLog log;
  log.Add(Rows({1, 2, 3, 4}));
  log.Release(3);
  log.Release(2);
  EXPECT_EQ(log.From(0), Rows({4}));
  log.Release(100);
  EXPECT_TRUE(log.From(0).empty());
  log.Add(Rows({5}));
  EXPECT_EQ(log.end(), 5);
  EXPECT_EQ(log.From(4), Rows({5}));
}

TEST(RankLog, IsBounded) {
  RankLog log;
  for (int i = 0; i < 40; ++i) log.Add(Rows(std::vector<TokenId>(100, i)));
  EXPECT_EQ(log.end(), 4000);
  const TokenRanks rows = log.From(0);
  EXPECT_EQ(rows.size(), RankLog::kMaxRows);
  EXPECT_EQ(rows.tokens.back(), 39);
}

TEST(RankLog, RowsOfAnotherSizeReplaceThose) {
  RankLog log;
  log.Add(Rows({1, 2, 3}));
  const TokenRanks pairs = {
      .top = 2, .contexts = {0, 1}, .tokens = {4, 5}, .log_probs = {-1, -2}};
  log.Add(pairs);
  EXPECT_EQ(log.end(), 4);
  EXPECT_EQ(log.From(0), pairs);
  EXPECT_THAT(log.From(3).tokens, ElementsAre(4, 5));
}

}  // namespace
}  // namespace espalier::coordinator
