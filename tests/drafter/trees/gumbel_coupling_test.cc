#include "drafter/trees/gumbel_coupling.h"

#include <cmath>
#include <random>

#include "common/speculation/gumbel_noise.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;

TEST(GumbelCouplingTest,
     GreedyKeepsTheDistributionAndSortsWithTiesToTheLowerToken) {
  std::vector<Candidate> candidates = {
      {7, std::log(.2)}, {3, std::log(.5)}, {1, std::log(.2)}};
  ApplyGumbelCoupling({}, 5, 1.0, candidates);
  EXPECT_THAT(candidates, ElementsAre(Candidate{3, std::log(.5)},
                                      Candidate{1, std::log(.2)},
                                      Candidate{7, std::log(.2)}));
}

TEST(GumbelCouplingTest, NoCandidatesStayNone) {
  std::vector<Candidate> candidates;
  ApplyGumbelCoupling({.temperature = 1, .seed = 3}, 5, 1.0, candidates);
  EXPECT_TRUE(candidates.empty());
}

TEST(GumbelCouplingTest, IsTheSoftmaxOfPerturbedScoresWithTheRestAtItsMedian) {
  const SamplingParams sampling = {.temperature = 0.5f, .seed = 99};
  const double scale = 0.7;
  const GumbelNoise noise(99, 12);
  const double a = std::exp((std::log(.5) + .5 * noise(4)) / scale);
  const double b = std::exp((std::log(.3) + .5 * noise(9)) / scale);
  const double rest =
      std::exp((std::log(.2) + .5 * -std::log(std::log(2.0))) / scale);
  std::vector<Candidate> candidates = {{4, std::log(.5)}, {9, std::log(.3)}};
  ApplyGumbelCoupling(sampling, 12, scale, candidates);
  for (const Candidate& candidate : candidates) {
    const double expected = (candidate.token == 4 ? a : b) / (a + b + rest);
    EXPECT_NEAR(std::exp(candidate.log_prob), expected, 1e-12);
  }
}

TEST(GumbelCouplingTest, StaysFiniteAndAtMostZeroAtExtremeScales) {
  for (double scale : {0.01, 1.0, 100.0}) {
    for (float temperature : {0.01f, 1.0f, 100.0f}) {
      // The mass of three thirds may round to just above one.
      std::vector<Candidate> candidates = {{0, std::log(1 / 3.)},
                                           {1, std::log(1 / 3.)},
                                           {2, std::log(1 / 3. + 1e-15)},
                                           {3, -300.0}};
      ApplyGumbelCoupling({.temperature = temperature, .seed = 1}, 0, scale,
                          candidates);
      for (const Candidate& candidate : candidates) {
        EXPECT_TRUE(std::isfinite(candidate.log_prob));
        EXPECT_LE(candidate.log_prob, 0);
      }
    }
  }
}

// If the target's log q = log p + Gumbel noise of the scale that is assumed,
// the estimate must be the frequency with which the target emits the token.
TEST(GumbelCouplingTest,
     EstimatesAreTheFrequenciesOfADrafterThatErrsAsAssumed) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(1e-12, 1);
  const double scale = 0.5;
  const std::vector<double> distribution = {.4, .3, .2, .1};
  const SamplingParams sampling = {.temperature = 1, .seed = 5};
  std::vector<Candidate> candidates;
  for (TokenId x = 0; x < 4; ++x)
    candidates.push_back({x, std::log(distribution[x])});
  ApplyGumbelCoupling(sampling, 3, scale, candidates);

  const GumbelNoise noise(5, 3);
  std::vector<double> counts(4, 0);
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    TokenId best = 0;
    double best_score = -1e9;
    for (TokenId x = 0; x < 4; ++x) {
      const double error = -scale * std::log(-std::log(uniform(random)));
      const double score = std::log(distribution[x]) + noise(x) + error;
      if (score > best_score) best_score = score, best = x;
    }
    ++counts[best];
  }
  for (const Candidate& candidate : candidates) {
    EXPECT_NEAR(std::exp(candidate.log_prob), counts[candidate.token] / kDraws,
                0.01);
  }
}

}  // namespace
}  // namespace espalier::drafter
