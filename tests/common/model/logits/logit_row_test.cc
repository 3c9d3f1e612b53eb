#include "common/model/logits/logit_row.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "common/speculation/gumbel_noise.h"
#include "common/speculation/near_tie.h"
#include "gmock/gmock.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

std::vector<float> NormalRow(size_t size, float deviation, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> logit(0.0f, deviation);
  std::vector<float> row(size);
  for (float& value : row) value = logit(random);
  return row;
}

// Computes the definition, without any pruning.
SampledToken PlainDraw(const std::vector<float>& row,
                       const DrawRequest& request, int64_t position,
                       const std::set<TokenId>& without = {}) {
  const GumbelNoise noise(request.seed, position, request.noise);
  const float largest = *std::max_element(row.begin(), row.end());
  double best = -std::numeric_limits<double>::infinity(), second = best;
  SampledToken sampled;
  for (size_t i = 0; i < row.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (without.contains(token)) continue;
    const bool greedy = request.temperature == 0;
    const float weight = (row[i] - largest) / request.temperature;
    const double score = greedy ? row[i] : double{weight} + noise(token);
    if (score > best) {
      second = std::exchange(best, score);
      sampled.token = token;
      sampled.log_weight = greedy ? 0 : weight;
    } else {
      second = std::max(second, score);
    }
  }
  sampled.near_tie = best - second <= kNearTie;
  return sampled;
}

TEST(LogitRowTest, DrawIsTheArgmaxOfItsDefinition) {
  int near_ties = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<float> row =
        NormalRow(500, seed % 3 == 0 ? 0.01f : 4.0f, seed);
    for (float temperature : {0.0f, 0.01f, 0.7f, 1.0f, 100.0f}) {
      const DrawRequest request = {.temperature = temperature, .seed = seed};
      const SampledToken expected = PlainDraw(row, request, 5);
      EXPECT_EQ(*DrawFrom(row, request, 5), expected) << temperature;
      near_ties += expected.near_tie;
    }
  }
  EXPECT_GT(near_ties, 5);  // else the test did not see them
}

GatherRequest Gathering(const std::set<TokenId>& support, float temperature,
                        uint64_t seed) {
  RowSupports supports;
  supports.Add({});
  supports.Add(std::vector<TokenId>(support.begin(), support.end()));
  return {.temperature = temperature,
          .seed = seed,
          .round = 5,
          .supports = std::make_shared<RowSupports>(supports)};
}

TEST(LogitRowTest, GatheredIsTheDistributionOnTheSupportAndOutside) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<float> row =
        NormalRow(500, seed % 3 == 0 ? 0.01f : 4.0f, seed);
    const auto likeliest = static_cast<TokenId>(
        std::max_element(row.begin(), row.end()) - row.begin());
    const std::set<TokenId> support = {0, 17, 18, 499, likeliest};
    for (float temperature : {0.01f, 0.7f, 1.0f, 100.0f}) {
      const GatherRequest request = Gathering(support, temperature, seed);
      const GatheredRow gathered = *GatherFrom(row, request, 1);
      double outside = 0;
      auto log_weight = gathered.log_weights.begin();
      for (TokenId token = 0; token < 500; ++token) {
        const double weight = (double{row[token]} - row[likeliest]) /
                              static_cast<double>(temperature);
        if (support.contains(token)) {
          EXPECT_NEAR(*log_weight++, weight, -2e-7 * weight);
        } else {
          outside += std::exp(weight);
        }
      }
      EXPECT_EQ(log_weight, gathered.log_weights.end());
      EXPECT_NEAR(gathered.outside, outside, 1e-4 * outside);
      EXPECT_EQ(*SampleOutsideFrom(row, request, 1),
                PlainDraw(row, request.OutsideDraw(), request.round, support));
    }
  }
}

TEST(LogitRowTest, NothingOutsideWeighsNothing) {
  const GatherRequest request = Gathering({0, 1, 2}, 1, 0);
  EXPECT_EQ(GatherFrom({1, 3, 2}, request, 1)->outside, 0);
  EXPECT_GT(GatherFrom({1, 3, 2}, request, 0)->outside, 1);
}

TEST(LogitRowTest, GreedyTieGoesToTheLowerId) {
  EXPECT_EQ(*DrawFrom({0, 2, 2}, {}, 0),
            (SampledToken{.token = 1, .near_tie = true}));
  EXPECT_EQ(*DrawFrom({1}, {}, 0), (SampledToken{.token = 0}));
}

TEST(LogitRowTest, RankingIsSortedAndHasTheWholeMass) {
  const std::vector<float> row = {1, 3, 2, 3};
  const Ranking ranking = *RankFrom(row, {.top_k = 3});
  EXPECT_EQ(ranking.top,
            (std::vector<RankedToken>{{1, 3.0f}, {3, 3.0f}, {2, 2.0f}}));
  EXPECT_DOUBLE_EQ(ranking.log_sum_exp, std::log(std::exp(1) + std::exp(3) +
                                                 std::exp(2) + std::exp(3)));
  EXPECT_EQ(RankFrom(row, {.top_k = 9})->top.size(), 4u);
  EXPECT_TRUE(RankFrom(row, {})->top.empty());
}

TEST(LogitRowTest, LogitThatIsNotFiniteIsNamed) {
  const float bad = std::numeric_limits<float>::quiet_NaN();
  const GatherRequest gather = Gathering({}, 1, 0);
  for (const absl::Status& status :
       {DrawFrom({0, bad, 1, bad}, {}, 0).status(),
        RankFrom({0, bad, 1, bad}, {}).status(),
        GatherFrom({0, bad, 1, bad}, gather, 0).status(),
        SampleOutsideFrom({0, bad, 1}, gather, 0).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("token 1 is nan"));
  }
}

}  // namespace
}  // namespace espalier
