#include "drafter/ngram/rank_table.h"

#include <cmath>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter::rank_table_test {
namespace {

using ::testing::DoubleNear;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using Text = std::vector<TokenId>;

// Returns one row: the chances of tokens after two others.
TokenRanks Row(TokenId previous, TokenId last,
               const std::vector<std::pair<TokenId, double>>& chances) {
  TokenRanks row = {.top = static_cast<int32_t>(chances.size()),
                    .contexts = {previous, last}};
  for (const auto& [token, chance] : chances) {
    row.tokens.push_back(token);
    row.log_probs.push_back(static_cast<float>(std::log(chance)));
  }
  return row;
}

std::map<TokenId, double> After(RankTable& table, const Text& context) {
  std::map<TokenId, double> chances;
  for (const Candidate& candidate : table.After(context)) {
    chances[candidate.token] = std::exp(candidate.log_prob);
  }
  return chances;
}

TEST(RankTable, GivesTheMeanOfTheRowsAfterTwoTokens) {
  RankTable table(1 << 20);
  table.Observe(Row(1, 2, {{7, .8}, {8, .2}}));
  table.Observe(Row(1, 2, {{7, .4}, {9, .4}}));
  EXPECT_THAT(After(table, {5, 1, 2}),
              UnorderedElementsAre(Pair(7, DoubleNear(.6, 1e-6)),
                                   Pair(8, DoubleNear(.1, 1e-6)),
                                   Pair(9, DoubleNear(.2, 1e-6))));
}

TEST(RankTable, BacksOffToOneToken) {
  RankTable table(1 << 20);
  table.Observe(Row(1, 2, {{7, 1}}));
  table.Observe(Row(3, 2, {{8, 1}}));
  EXPECT_THAT(After(table, {1, 2}),
              UnorderedElementsAre(Pair(7, DoubleNear(1, 1e-6))));
  EXPECT_THAT(After(table, {4, 2}),
              UnorderedElementsAre(Pair(7, DoubleNear(.5, 1e-6)),
                                   Pair(8, DoubleNear(.5, 1e-6))));
  EXPECT_THAT(After(table, {2}), ::testing::SizeIs(2));
  EXPECT_THAT(After(table, {1, 9}), IsEmpty());
  EXPECT_THAT(After(table, {}), IsEmpty());
}

TEST(RankTable, OldRowsFade) {
  RankTable table(1 << 20);
  for (int i = 0; i < 1000; ++i) table.Observe(Row(1, 2, {{7, 1}}));
  for (int64_t i = 0; i < 2 * RankTable::kFading; ++i) {
    table.Observe(Row(1, 2, {{8, 1}}));
  }
  EXPECT_GT(After(table, {1, 2})[8], .8);
}

TEST(RankTable, ARowHasAsManyTokensAsAreRanked) {
  RankTable table(1 << 20);
  for (TokenId first = 0; first < 10; ++first) {
    std::vector<std::pair<TokenId, double>> chances;
    for (TokenId i = 0; i < kMaxRanksTop; ++i) {
      chances.emplace_back(1000 * first + i, .001 * (first + 1));
    }
    table.Observe(Row(1, 2, chances));
  }
  const auto after = After(table, {1, 2});
  EXPECT_EQ(std::ssize(after), kMaxRanksTop);
  EXPECT_TRUE(after.contains(9000)) << "the likeliest stay";
}

TEST(RankTable, MemoryIsBoundedAndWhatIsUsedStays) {
  constexpr int64_t kBytes = 1 << 16;
  RankTable table(kBytes);
  std::mt19937_64 random(51);
  table.Observe(Row(1, 2, {{7, 1}}));
  table.Observe(Row(3, 4, {{7, 1}}));
  for (int i = 0; i < 20000; ++i) {
    table.Observe(Row(static_cast<TokenId>(10 + random() % 30000),
                      static_cast<TokenId>(10 + random() % 30000),
                      {{7, .5}, {8, .25}}));
    EXPECT_LE(table.num_bytes(), kBytes + 256);
    EXPECT_EQ(After(table, {1, 2}).size(), 1u);
  }
  EXPECT_THAT(After(table, {3, 4}), IsEmpty());
}

}  // namespace
}  // namespace espalier::drafter::rank_table_test
