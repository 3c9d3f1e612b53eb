#include "common/speculation/logprobs.h"

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<float> RandomRow(std::mt19937& random, int64_t vocab) {
  std::normal_distribution<float> logit(3, 5);
  std::vector<float> row(vocab);
  for (float& x : row) x = logit(random);
  return row;
}

TEST(LogprobRowsTest, AreTheLogarithmsOfTheSoftmax) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 100; ++trial) {
    const int64_t vocab = 1 + random() % 60;
    const std::vector<float> row = RandomRow(random, vocab);
    double sum = 0;
    for (float x : row) sum += std::exp(double{x});
    const TokenId token = static_cast<TokenId>(random() % vocab);
    LogprobRows rows = {.top = static_cast<int32_t>(
                            random() % (std::min<int64_t>(vocab, 20) + 1))};
    rows.Append(row, token);
    EXPECT_NEAR(rows.chosen[0], row[token] - std::log(sum), 1e-5);
    ASSERT_EQ(std::ssize(rows.top_tokens), rows.top);
    std::multiset<float, std::greater<>> sorted(row.begin(), row.end());
    auto next = sorted.begin();
    for (int32_t i = 0; i < rows.top; ++i, ++next) {
      EXPECT_EQ(row[rows.top_tokens[i]], *next);
      EXPECT_NEAR(rows.top_logprobs[i], *next - std::log(sum), 1e-5);
    }
  }
}

TEST(LogprobRowsTest, OfEqualLogitsTheLowerIdIsFirst) {
  LogprobRows rows = {.top = 3};
  rows.Append(std::vector<float>{1, 2, 1, 2, 1}, 4);
  EXPECT_THAT(rows.top_tokens, ElementsAre(1, 3, 0));
}

TEST(LogprobRowsTest, HugeLogitsAreFinite) {
  LogprobRows rows = {.top = 2};
  rows.Append(std::vector<float>{3e38f, -3e38f}, 0);
  EXPECT_EQ(rows.chosen[0], 0);
}

TEST(LogprobRowsTest, PositionsFollowEachOtherAndAreCutTogether) {
  std::mt19937 random(2);
  LogprobRows all = {.top = 2}, first = all, second = all;
  for (int i = 0; i < 5; ++i) {
    const std::vector<float> row = RandomRow(random, 9);
    all.Append(row, i);
    (i < 2 ? first : second).Append(row, i);
  }
  LogprobRows joined = first;
  joined.Append(second);
  EXPECT_EQ(joined, all);
  joined.Cut(2);
  EXPECT_EQ(joined, first);
}

TEST(LogprobRequestTest, ErrorsNameTheFieldAndTheLimit) {
  EXPECT_TRUE(ValidateLogprobRequest({}).ok());
  EXPECT_TRUE(ValidateLogprobRequest({.emitted = 0, .prompt = 20}).ok());
  EXPECT_EQ(FieldOf(ValidateLogprobRequest({.emitted = 21})), "logprobs");
  EXPECT_EQ(FieldOf(ValidateLogprobRequest({.prompt = -1})), "prompt_logprobs");
  EXPECT_TRUE(CheckPromptLogprobs(0, kMaxLogprobs).ok());
  const absl::Status large = CheckPromptLogprobs(1, kMaxLogprobs / 2 + 1);
  EXPECT_EQ(FieldOf(large), "prompt_logprobs");
  EXPECT_THAT(large.message(), HasSubstr("262144"));
}

TEST(CheckLogprobsTest, ResultsThatDoNotFitTheRequestAreRefused) {
  LogprobRows good = {.top = 2};
  good.Append(std::vector<float>{1, 2, 3}, 1);
  EXPECT_TRUE(CheckLogprobs(good, 2, 1, 3).ok());
  EXPECT_TRUE(CheckLogprobs({}, std::nullopt, 1, 3).ok());
  EXPECT_FALSE(CheckLogprobs(good, std::nullopt, 1, 3).ok()) << "not wanted";
  EXPECT_FALSE(CheckLogprobs({}, 2, 1, 3).ok()) << "missing";
  EXPECT_FALSE(CheckLogprobs(good, 2, 2, 3).ok()) << "too few";
  EXPECT_FALSE(CheckLogprobs(good, 1, 1, 3).ok()) << "too many alternatives";
  EXPECT_FALSE(CheckLogprobs(good, 2, 1, 2).ok()) << "not a token";
  LogprobRows bad = good;
  bad.top_logprobs.pop_back();
  EXPECT_FALSE(CheckLogprobs(bad, 2, 1, 3).ok());
  for (float wrong : {0.5f, NAN, -INFINITY}) {
    bad = good;
    bad.chosen[0] = wrong;
    EXPECT_FALSE(CheckLogprobs(bad, 2, 1, 3).ok()) << wrong;
    bad = good;
    bad.top_logprobs[1] = wrong;
    EXPECT_FALSE(CheckLogprobs(bad, 2, 1, 3).ok()) << wrong;
  }
}

TEST(CheckLogprobsTest, ASmallVocabularyHasFewerAlternatives) {
  LogprobRows rows = {.top = 2};
  rows.Append(std::vector<float>{1, 2}, 1);
  EXPECT_TRUE(CheckLogprobs(rows, 20, 1, 2).ok());
}

}  // namespace
}  // namespace espalier
