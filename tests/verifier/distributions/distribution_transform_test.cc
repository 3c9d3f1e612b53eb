#include "verifier/distributions/distribution_transform.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<TokenId> Kept(const TargetDistribution& distribution) {
  std::vector<TokenId> kept;
  for (size_t i = 0; i < distribution.log_weights.size(); ++i) {
    kept.push_back(distribution.token(i));
  }
  return kept;
}

TEST(DistributionTransform, GreedyLeavesTheLikeliestTokenAndTheLowestOfEquals) {
  DistributionTransform transform;
  const std::vector<float> logits = {0.5f, 2.0f, -1.0f, 2.0f};
  const auto distribution = transform.Apply(logits, {.temperature = 0});
  ASSERT_TRUE(distribution.ok());
  EXPECT_THAT(distribution->tokens, ElementsAre(1));
  EXPECT_THAT(distribution->log_weights, ElementsAre(0.0f));
  EXPECT_TRUE(distribution->near_tie);
}

TEST(DistributionTransform, GreedyReportsNearTiesOnly) {
  DistributionTransform transform;
  const auto near_tie = [&](std::vector<float> logits) {
    return transform.Apply(logits, {.temperature = 0})->near_tie;
  };
  EXPECT_TRUE(near_tie({1.0f, 1.0005f, 0.0f}));
  EXPECT_TRUE(near_tie({1.0005f, 0.0f, 1.0f}));
  EXPECT_FALSE(near_tie({1.0f, 1.1f, 0.0f}));
  EXPECT_FALSE(near_tie({1.0f}));
}

TEST(DistributionTransform, DividesByTheTemperature) {
  DistributionTransform transform;
  const std::vector<float> logits = {1.0f, 3.0f, -2.0f};
  const auto distribution = transform.Apply(logits, {.temperature = 0.5f});
  ASSERT_TRUE(distribution.ok());
  EXPECT_THAT(distribution->tokens, IsEmpty());
  EXPECT_THAT(distribution->log_weights, ElementsAre(-4.0f, 0.0f, -10.0f));
}

TEST(DistributionTransform, HugeLogitsAtALowTemperatureDoNotOverflow) {
  DistributionTransform transform;
  const std::vector<float> logits = {3e38f, -3e38f, 2.9e38f};
  const auto distribution = transform.Apply(
      logits, {.temperature = 0.01f, .top_k = 2, .top_p = 0.5f});
  ASSERT_TRUE(distribution.ok());
  EXPECT_THAT(Kept(*distribution), ElementsAre(0));
  EXPECT_THAT(distribution->log_weights, ElementsAre(0.0f));
}

TEST(DistributionTransform, TopKKeepsTheLowerIdsOfEquals) {
  DistributionTransform transform;
  const std::vector<float> logits = {1.0f, 5.0f, 1.0f, 7.0f, 1.0f, 0.0f};
  const auto kept = [&](int32_t k) {
    return Kept(*transform.Apply(logits, {.temperature = 1, .top_k = k}));
  };
  EXPECT_THAT(kept(1), ElementsAre(3));
  EXPECT_THAT(kept(2), ElementsAre(1, 3));
  EXPECT_THAT(kept(3), ElementsAre(0, 1, 3));
  EXPECT_THAT(kept(4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept(6), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(kept(100), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(kept(0), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(DistributionTransform, TopPKeepsTheSmallestSetThatReachesTheMass) {
  DistributionTransform transform;
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f),
                                     std::log(0.1f), std::log(0.3f)};
  const auto kept = [&](float p) {
    return Kept(*transform.Apply(logits, {.temperature = 1, .top_p = p}));
  };
  EXPECT_THAT(kept(1e-6f), ElementsAre(1));
  EXPECT_THAT(kept(0.49f), ElementsAre(1));
  EXPECT_THAT(kept(0.51f), ElementsAre(1, 3));
  EXPECT_THAT(kept(0.85f), ElementsAre(0, 1, 3));  // the lower id of the equals
  EXPECT_THAT(kept(0.95f), ElementsAre(0, 1, 2, 3));
}

TEST(DistributionTransform, TopPIsOfTheMassThatTopKLeft) {
  DistributionTransform transform;
  // Token 1 has 0.5 of all mass, and 0.5 / 0.8 of the two likeliest tokens'
  // mass.
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f),
                                     std::log(0.1f), std::log(0.3f)};
  const auto distribution =
      transform.Apply(logits, {.temperature = 1, .top_k = 2, .top_p = 0.6f});
  EXPECT_THAT(Kept(*distribution), ElementsAre(1));
}

// Computes the definition, by sorting everything.
std::set<TokenId> KeptBySorting(const std::vector<float>& logits,
                                const SamplingParams& sampling) {
  std::vector<TokenId> ranked(logits.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (sampling.top_k > 0 && sampling.top_k < static_cast<int>(ranked.size())) {
    ranked.resize(sampling.top_k);
  }
  const auto mass = [&](TokenId token) {
    return std::exp((logits[token] - logits[ranked[0]]) /
                    static_cast<double>(sampling.temperature));
  };
  double total = 0;
  for (TokenId token : ranked) total += mass(token);
  std::set<TokenId> kept;
  double reached = 0;
  for (TokenId token : ranked) {
    if (!kept.empty() && sampling.top_p < 1 &&
        reached >= sampling.top_p * total) {
      break;
    }
    kept.insert(token);
    reached += mass(token);
  }
  return kept;
}

TEST(DistributionTransform, AgreesWithSortingOnRandomRowsAndReusesItsBuffers) {
  DistributionTransform transform;
  std::mt19937_64 random(6);
  std::normal_distribution<float> logit(0.0f, 2.0f);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<float> logits(1 + random() % 400);
    // Rounded, so that there are ties.
    for (float& x : logits) x = std::round(logit(random) * 4) / 4;
    const SamplingParams sampling = {
        .temperature = 0.25f * static_cast<float>(1 + random() % 8),
        .top_k = static_cast<int32_t>(random() % 3 ? random() % 100 : 0),
        // Off the masses that rounded logits can reach exactly.
        .top_p = random() % 3 ? 0.0137f * static_cast<float>(1 + random() % 70)
                              : 1.0f};
    const auto distribution = transform.Apply(logits, sampling);
    ASSERT_TRUE(distribution.ok());
    const std::vector<TokenId> kept = Kept(*distribution);
    EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
    EXPECT_EQ(std::set<TokenId>(kept.begin(), kept.end()),
              KeptBySorting(logits, sampling));
    const float largest = *std::max_element(logits.begin(), logits.end());
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_FLOAT_EQ(distribution->log_weights[i],
                      (logits[kept[i]] - largest) / sampling.temperature);
    }
  }
}

TEST(DistributionTransform, NonFiniteLogitsAreErrorsThatNameTheToken) {
  DistributionTransform transform;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    for (float temperature : {0.0f, 1.0f}) {
      const std::vector<float> logits = {1.0f, 2.0f, bad, 3.0f};
      const auto distribution = transform.Apply(
          logits, {.temperature = temperature, .top_k = 2, .top_p = 0.5f});
      EXPECT_EQ(distribution.status().code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(distribution.status().message()),
                  HasSubstr("token 2"));
    }
  }
}

}  // namespace
}  // namespace espalier::verifier
