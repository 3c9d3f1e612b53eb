#include "common/model/logit_row.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/spec/gumbel_noise.h"
#include "common/spec/near_tie.h"
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

// The definition, without any pruning.
DrawnToken PlainDraw(const std::vector<float>& row, const DrawRequest& request,
                     int64_t position) {
  const GumbelNoise noise(request.seed, position);
  const float largest = *std::max_element(row.begin(), row.end());
  double best = -std::numeric_limits<double>::infinity(), second = best;
  DrawnToken drawn;
  for (size_t i = 0; i < row.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const double score =
        request.temperature == 0
            ? row[i]
            : double{(row[i] - largest) / request.temperature} + noise(token);
    if (score > best) {
      second = std::exchange(best, score);
      drawn.token = token;
    } else {
      second = std::max(second, score);
    }
  }
  drawn.near_tie = best - second <= kNearTie;
  return drawn;
}

TEST(LogitRowTest, DrawIsTheArgmaxOfItsDefinition) {
  int near_ties = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<float> row =
        NormalRow(500, seed % 3 == 0 ? 0.01f : 4.0f, seed);
    for (float temperature : {0.0f, 0.01f, 0.7f, 1.0f, 100.0f}) {
      const DrawRequest request = {.temperature = temperature, .seed = seed};
      const DrawnToken expected = PlainDraw(row, request, 5);
      EXPECT_EQ(*DrawFrom(row, request, 5), expected) << temperature;
      near_ties += expected.near_tie;
    }
  }
  EXPECT_GT(near_ties, 5);  // else the test did not see them
}

TEST(LogitRowTest, GreedyTieGoesToTheLowerId) {
  EXPECT_EQ(*DrawFrom({0, 2, 2}, {}, 0),
            (DrawnToken{.token = 1, .near_tie = true}));
  EXPECT_EQ(*DrawFrom({1}, {}, 0), (DrawnToken{.token = 0}));
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
  for (const absl::Status& status : {DrawFrom({0, bad, 1, bad}, {}, 0).status(),
                                     RankFrom({0, bad, 1, bad}, {}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("token 1 is nan"));
  }
}

}  // namespace
}  // namespace espalier
