#include "drafter/trees/tree_builder.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns a distribution over `vocab` tokens sampled from a hash of the path:
// log-probabilities without ties.
std::vector<Candidate> HashedDistribution(absl::Span<const TokenId> path,
                                          int vocab) {
  uint64_t hash = 17;
  for (TokenId token : path) hash = hash * 31 + token + 1;
  std::mt19937_64 random(hash);
  std::vector<double> weights(vocab);
  double sum = 0.3;  // mass of tokens not listed
  for (double& weight : weights) sum += weight = 0.05 + random() % 1000 / 1000.;
  std::vector<Candidate> distribution;
  for (int x = 0; x < vocab; ++x)
    distribution.push_back({x, std::log(weights[x] / sum)});
  return distribution;
}

SequenceView View(const std::vector<TokenId>& tokens, DraftBudget budget,
                  SamplingParams sampling = {}) {
  return {.tokens = tokens, .sampling = sampling, .budget = budget};
}

struct ScoredPath {
  double log_prob;
  std::vector<TokenId> path;
};

void AllPaths(const SequenceView& view, const TreeShape& shape, int vocab,
              const ScoredPath& at, std::vector<ScoredPath>& all) {
  if (static_cast<int64_t>(at.path.size()) == view.budget.max_depth) return;
  auto distribution = HashedDistribution(at.path, vocab);
  ApplyGumbelCoupling(view.sampling,
                      static_cast<int64_t>(view.tokens.size() + at.path.size()),
                      shape.noise_scale, distribution);
  if (shape.width > 0) {
    distribution.resize(std::min<size_t>(distribution.size(), shape.width));
  }
  for (const Candidate& candidate : distribution) {
    ScoredPath next = at;
    next.log_prob += candidate.log_prob;
    next.path.push_back(candidate.token);
    all.push_back(next);
    AllPaths(view, shape, vocab, next, all);
  }
}

TEST(TreeBuilderTest, EqualsTheBestPathsOfAllByBruteForce) {
  const std::vector<TokenId> tokens = {0, 1, 2};
  for (float temperature : {0.0f, 0.7f, 1.0f}) {
    for (int64_t width : {0, 1, 2}) {
      for (int64_t nodes : {1, 5, 17, 1000}) {
        const SequenceView view =
            View(tokens, {.max_nodes = nodes, .max_depth = 4},
                 {.temperature = temperature, .seed = 4});
        const TreeShape shape = {.width = width, .noise_scale = 0.6};
        const TokenTree tree = BuildTree(
            view, shape, [](auto path) { return HashedDistribution(path, 3); });
        ASSERT_TRUE(
            tree.Validate({.max_nodes = nodes, .max_depth = 4, .vocab_size = 3})
                .ok());
        std::vector<ScoredPath> all;
        AllPaths(view, shape, 3, {}, all);
        std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
          return a.log_prob > b.log_prob;
        });
        all.resize(std::min<size_t>(all.size(), nodes));
        // Node by node: so every prefix of the list is the best of its size.
        const auto paths = Paths(tree);
        ASSERT_EQ(paths.size(), all.size() + 1);
        for (size_t i = 0; i < all.size(); ++i) {
          EXPECT_EQ(paths[i + 1], all[i].path);
          EXPECT_FLOAT_EQ(tree.log_probs[i + 1], all[i].log_prob);
        }
      }
    }
  }
}

TEST(TreeBuilderTest, AsksOnlyForNodesItGrowsAndNotBeyondTheDepth) {
  const std::vector<TokenId> tokens = {5};
  int calls = 0;
  const auto distribution = [&](absl::Span<const TokenId> path) {
    EXPECT_LT(path.size(), 2u);
    ++calls;
    return HashedDistribution(path, 3);
  };
  BuildTree(View(tokens, {.max_nodes = 0, .max_depth = 2}), {}, distribution);
  BuildTree(View(tokens, {.max_nodes = 9, .max_depth = 0}), {}, distribution);
  EXPECT_EQ(calls, 0);
  BuildTree(View(tokens, {.max_nodes = 1, .max_depth = 2}), {}, distribution);
  EXPECT_EQ(calls, 1);
  BuildTree(View(tokens, {.max_nodes = 99, .max_depth = 2}), {}, distribution);
  EXPECT_EQ(calls, 1 + 1 + 3);
}

TEST(TreeBuilderTest, BreaksTiesByParentThenToken) {
  const std::vector<TokenId> tokens = {9};
  const double half = std::log(0.5);
  const TokenTree tree =
      BuildTree(View(tokens, {.max_nodes = 6, .max_depth = 2}), {},
                [&](absl::Span<const TokenId>) {
                  return std::vector<Candidate>{{8, half}, {2, half}};
                });
  EXPECT_THAT(tree.tokens, ElementsAre(9, 2, 8, 2, 8, 2, 8));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 0, 1, 1, 2, 2));
}

TEST(TreeBuilderTest, NoPredictionIsTheRootAlone) {
  const std::vector<TokenId> tokens = {3, 4};
  const TokenTree tree =
      BuildTree(View(tokens, {.max_nodes = 8, .max_depth = 8}), {},
                [](auto) { return std::vector<Candidate>{}; });
  EXPECT_THAT(tree.tokens, ElementsAre(4));
}

TEST(RecentTokensTest, ReachesFromThePathIntoTheText) {
  const std::vector<TokenId> text = {1, 2, 3};
  const std::vector<TokenId> path = {4, 5};
  EXPECT_THAT(RecentTokens(text, path, 0), IsEmpty());
  EXPECT_THAT(RecentTokens(text, path, 1), ElementsAre(5));
  EXPECT_THAT(RecentTokens(text, path, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(RecentTokens(text, path, 9), ElementsAre(1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace espalier::drafter
