#include "drafter/ngram/backoff_distribution.h"

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::map<TokenId, double> Probabilities(
    const BackoffDistribution& distribution) {
  std::map<TokenId, double> probabilities;
  for (const Candidate& candidate : distribution.Candidates()) {
    probabilities[candidate.token] = std::exp(candidate.log_prob);
  }
  return probabilities;
}

TEST(BackoffDistributionTest, NothingSeenHasNoCandidates) {
  EXPECT_THAT(BackoffDistribution().Candidates(), IsEmpty());
}

TEST(BackoffDistributionTest, ShortestContextLeavesMassToUnseenTokens) {
  const std::vector<SuccessorCount> seen = {{5, 3}, {6, 1}};
  BackoffDistribution distribution;
  distribution.Refine({.successors = seen, .total = 4, .distinct = 2});
  EXPECT_THAT(Probabilities(distribution),
              ElementsAre(Pair(5, DoubleNear(.5, 1e-12)),
                          Pair(6, DoubleNear(1 / 6., 1e-12))));
}

TEST(BackoffDistributionTest, LongerContextOutweighsAndMixesWithTheShorter) {
  const std::vector<SuccessorCount> shorter = {{5, 3}, {6, 1}};
  const std::vector<SuccessorCount> longer = {{6, 1}};
  BackoffDistribution distribution;
  distribution.Refine({.successors = shorter, .total = 4, .distinct = 2});
  distribution.Refine({.successors = longer, .total = 1, .distinct = 1});
  EXPECT_THAT(Probabilities(distribution),
              ElementsAre(Pair(5, DoubleNear(.25, 1e-12)),
                          Pair(6, DoubleNear(.5 + 1 / 12., 1e-12))));
}

TEST(BackoffDistributionTest, PrunedSuccessorsLeaveTheirMassUnlisted) {
  const std::vector<SuccessorCount> kept = {{1, 6}};
  BackoffDistribution distribution;
  distribution.Refine({.successors = kept, .total = 10, .distinct = 5});
  EXPECT_THAT(Probabilities(distribution),
              ElementsAre(Pair(1, DoubleNear(.4, 1e-12))));
}

}  // namespace
}  // namespace espalier::drafter
