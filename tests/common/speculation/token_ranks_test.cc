#include "common/speculation/token_ranks.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TokenRanks Ranks() {
  return {.top = 2,
          .contexts = {1, 2, 3, 4},
          .tokens = {5, 6, 7, 8},
          .log_probs = {-0.5f, -1, -0.25f, -2}};
}

TEST(TokenRanks, RowsAreColumns) {
  const TokenRanks ranks = Ranks();
  EXPECT_EQ(ranks.size(), 2);
  EXPECT_THAT(ranks.ContextOf(1), ElementsAre(3, 4));
  EXPECT_THAT(ranks.TokensOf(0), ElementsAre(5, 6));
  EXPECT_THAT(ranks.LogProbsOf(1), ElementsAre(-0.25f, -2));
}

TEST(TokenRanks, GrowAtTheEndAndShrinkAtTheFront) {
  TokenRanks ranks = Ranks();
  ranks.Append(Ranks());
  EXPECT_EQ(ranks.size(), 4);
  ranks.DropFirst(2);
  EXPECT_EQ(ranks, Ranks());
  ranks.Append({});
  EXPECT_EQ(ranks, Ranks());
}

TEST(CheckRanks, NamesWhatIsWrong) {
  EXPECT_TRUE(CheckRanks("ranks", Ranks(), 9).ok());
  EXPECT_TRUE(CheckRanks("ranks", {}, 9).ok());
  const auto message = [](const TokenRanks& ranks) {
    const absl::Status status = CheckRanks("ranks", ranks, 9);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  TokenRanks ranks = Ranks();
  ranks.tokens.pop_back();
  EXPECT_THAT(message(ranks), HasSubstr("are not rows of 2"));
  ranks = Ranks();
  ranks.contexts.push_back(1);
  EXPECT_THAT(message(ranks), HasSubstr("5 tokens of contexts"));
  ranks = Ranks();
  ranks.tokens[0] = 9;
  EXPECT_THAT(message(ranks), HasSubstr("ranks.tokens: token 9"));
  ranks = Ranks();
  ranks.contexts[0] = -1;
  EXPECT_THAT(message(ranks), HasSubstr("ranks.contexts: token -1"));
  for (float bad : {0.5f, std::numeric_limits<float>::quiet_NaN()}) {
    ranks = Ranks();
    ranks.log_probs[3] = bad;
    EXPECT_THAT(message(ranks), HasSubstr("log-probability"));
  }
  ranks = {.top = 65, .contexts = {1, 2}};
  EXPECT_THAT(message(ranks), HasSubstr("at most 2048 of 64"));
  ranks = {.contexts = std::vector<TokenId>(2 * 2049, 1)};
  EXPECT_THAT(message(ranks), HasSubstr("2049 rows"));
}

}  // namespace
}  // namespace espalier
