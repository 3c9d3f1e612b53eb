#include "verifier/engine/logprob_cache.h"

#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

// Returns rows of the tokens after the first, which name their token.
LogprobRows RowsOf(const std::vector<TokenId>& text, int32_t top = 1) {
  LogprobRows rows = {.top = top};
  for (size_t i = 1; i < text.size(); ++i) {
    rows.chosen.push_back(-static_cast<float>(text[i]));
    for (int32_t j = 0; j < top; ++j) {
      rows.top_tokens.push_back(text[i]);
      rows.top_logprobs.push_back(-1);
    }
  }
  return rows;
}

constexpr int64_t kPlenty = 1 << 20;

TEST(LogprobCacheTest, ReturnsWhatEqualBeginningsShare) {
  LogprobCache cache(kPlenty);
  cache.Offer({1, 2, 3, 4}, "", RowsOf({1, 2, 3, 4}));
  EXPECT_EQ(cache.Find({1, 2, 3, 4}, "", 1), RowsOf({1, 2, 3, 4}));
  EXPECT_EQ(cache.Find({1, 2, 3, 9, 9}, "", 1), RowsOf({1, 2, 3}));
  EXPECT_EQ(cache.Find({1, 2}, "", 1), RowsOf({1, 2}));
  EXPECT_EQ(cache.Find({1}, "", 1).size(), 0);
  EXPECT_EQ(cache.Find({2, 2, 3}, "", 1).size(), 0);
}

TEST(LogprobCacheTest, OtherSaltsAndNumbersShareNothing) {
  LogprobCache cache(kPlenty);
  cache.Offer({1, 2, 3}, "mine", RowsOf({1, 2, 3}));
  EXPECT_EQ(cache.Find({1, 2, 3}, "", 1).size(), 0);
  EXPECT_EQ(cache.Find({1, 2, 3}, "mine", 2), (LogprobRows{.top = 2}));
  EXPECT_EQ(cache.Find({1, 2, 3}, "mine", 1).size(), 2);
}

TEST(LogprobCacheTest, ALongerPromptReplacesItsBeginning) {
  LogprobCache cache(kPlenty);
  cache.Offer({1, 2, 3}, "", RowsOf({1, 2, 3}));
  cache.Offer({1, 2, 3, 4}, "", RowsOf({1, 2, 3, 4}));
  const int64_t bytes = cache.num_bytes();
  cache.Offer({1, 2}, "", RowsOf({1, 2}));
  cache.Offer({1, 2, 3, 4}, "", RowsOf({1, 2, 3, 4}));
  EXPECT_EQ(cache.num_bytes(), bytes);
  EXPECT_EQ(cache.Find({1, 2, 3, 4}, "", 1).size(), 3);
}

TEST(LogprobCacheTest, DropsWhatWasNotUsedForLongest) {
  LogprobCache one(kPlenty);
  one.Offer({1, 2, 3}, "", RowsOf({1, 2, 3}));
  LogprobCache cache(2 * one.num_bytes());
  cache.Offer({1, 2, 3}, "", RowsOf({1, 2, 3}));
  cache.Offer({4, 5, 6}, "", RowsOf({4, 5, 6}));
  EXPECT_EQ(cache.Find({1, 2, 3}, "", 1).size(), 2);
  cache.Offer({7, 8, 9}, "", RowsOf({7, 8, 9}));
  EXPECT_EQ(cache.Find({4, 5, 6}, "", 1).size(), 0);
  EXPECT_EQ(cache.Find({1, 2, 3}, "", 1).size(), 2);
  EXPECT_EQ(cache.Find({7, 8, 9}, "", 1).size(), 2);
  EXPECT_LE(cache.num_bytes(), 2 * one.num_bytes());
  LogprobCache none(0);
  none.Offer({1, 2, 3}, "", RowsOf({1, 2, 3}));
  EXPECT_EQ(none.num_bytes(), 0);
}

}  // namespace
}  // namespace espalier::verifier
