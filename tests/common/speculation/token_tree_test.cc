#include "common/speculation/token_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TokenTree::Limits kLimits = {
    .max_nodes = 8, .max_depth = 3, .vocab_size = 100};

//  0: 5
//  |-- 1: 7 -- 3: 8 -- 4: 9
//  `-- 2: 6
TokenTree ValidTree() {
  return {.tokens = {5, 7, 6, 8, 9},
          .parents = {kNoParent, 0, 0, 1, 3},
          .log_probs = {0.0f, -0.5f, -1.0f, -0.7f, -0.7f}};
}

std::string ErrorOf(const TokenTree& tree,
                    const TokenTree::Limits& limits = kLimits) {
  const absl::Status status = tree.Validate(limits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(TokenTreeValidate, AcceptsAValidTreeAndTheRootAlone) {
  EXPECT_TRUE(ValidTree().Validate(kLimits).ok());
  EXPECT_TRUE(TokenTree::RootOnly(99).Validate(kLimits).ok());
  EXPECT_TRUE(TokenTree::RootOnly(0).Validate({0, 0, 1}).ok());
}

TEST(TokenTreeValidate, AcceptsSiblingsThatRepeatAToken) {
  TokenTree tree = ValidTree();
  tree.Add(0, 7, -0.5f);
  EXPECT_TRUE(tree.Validate(kLimits).ok());
}

TEST(TokenTreeValidate, RefusesAnEmptyTree) {
  EXPECT_THAT(ErrorOf(TokenTree()), HasSubstr("no root"));
}

TEST(TokenTreeValidate, RefusesMoreNodesThanTheLimit) {
  TokenTree tree = TokenTree::RootOnly(0);
  for (int i = 0; i < 8; ++i) tree.Add(0, i, -1.0f);
  EXPECT_TRUE(tree.Validate(kLimits).ok());
  tree.Add(0, 8, -1.0f);
  EXPECT_THAT(ErrorOf(tree), HasSubstr("9 nodes, limit 8"));
}

TEST(TokenTreeValidate, RefusesAMillionNodesAndAcceptsThemWhereAllowed) {
  TokenTree tree = TokenTree::RootOnly(0);
  for (int32_t i = 0; i < 1000000; ++i) tree.Add(i, i % 100, 0.0f);
  EXPECT_THAT(ErrorOf(tree), HasSubstr("1000000 nodes, limit 8"));
  EXPECT_TRUE(
      tree.Validate(
              {.max_nodes = 1000000, .max_depth = 1000000, .vocab_size = 100})
          .ok());
  EXPECT_THAT(
      ErrorOf(tree,
              {.max_nodes = 1000000, .max_depth = 999999, .vocab_size = 100}),
      HasSubstr("depth 1000000, limit 999999"));
}

TEST(TokenTreeValidate, RefusesColumnsOfDifferentLengths) {
  TokenTree tree = ValidTree();
  tree.parents.pop_back();
  EXPECT_THAT(ErrorOf(tree), HasSubstr("parents 4"));
  tree = ValidTree();
  tree.log_probs.push_back(-1.0f);
  EXPECT_THAT(ErrorOf(tree), HasSubstr("log_probs 6"));
  tree = ValidTree();
  tree.provenance = {0, 1};
  EXPECT_THAT(ErrorOf(tree), HasSubstr("provenance 2"));
  tree.provenance = {0, 1, 1, 2, 3};
  EXPECT_TRUE(tree.Validate(kLimits).ok());
}

TEST(TokenTreeValidate, RefusesARootWithAParent) {
  TokenTree tree = ValidTree();
  tree.parents[0] = 0;
  EXPECT_THAT(ErrorOf(tree), HasSubstr("the root has parent 0"));
}

TEST(TokenTreeValidate, RefusesParentsThatAreNotEarlierNodes) {
  for (int32_t parent :
       {3, 4, 5, 1000000, -1, -2, std::numeric_limits<int32_t>::min(),
        std::numeric_limits<int32_t>::max()}) {
    TokenTree tree = ValidTree();
    tree.parents[3] = parent;
    EXPECT_THAT(ErrorOf(tree), HasSubstr("node 3: parent")) << parent;
  }
}

TEST(TokenTreeValidate, RefusesACycle) {
  TokenTree tree = ValidTree();
  tree.parents[3] = 4;  // and 4's parent is 3
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 3: parent 4"));
}

TEST(TokenTreeValidate, RefusesTokensOutsideTheVocabulary) {
  for (TokenId token : {-1, 100, std::numeric_limits<int32_t>::max(),
                        std::numeric_limits<int32_t>::min()}) {
    for (int node : {0, 4}) {
      TokenTree tree = ValidTree();
      tree.tokens[node] = token;
      EXPECT_THAT(ErrorOf(tree), HasSubstr("vocabulary of 100"));
    }
  }
}

TEST(TokenTreeValidate, RefusesLogProbsThatAreNotLogProbabilities) {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity(), 0.1f}) {
    for (int node : {0, 2}) {
      TokenTree tree = ValidTree();
      tree.log_probs[node] = bad;
      EXPECT_THAT(ErrorOf(tree), HasSubstr("log_prob"));
    }
  }
}

TEST(TokenTreeValidate, RefusesAPathMoreLikelyThanItsStart) {
  TokenTree tree = ValidTree();
  tree.log_probs[4] = -0.6f;
  EXPECT_THAT(ErrorOf(tree), HasSubstr("above its parent's"));
}

TEST(TokenTreeValidate, RefusesTreesDeeperThanTheLimit) {
  TokenTree tree = ValidTree();
  tree.Add(4, 1, -2.0f);
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 5: depth 4, limit 3"));
}

// Nodes 1 and 3 are sampled, 1 twice; the others are deterministic.
TokenTree TreeWithDistributions() {
  TokenTree tree = ValidTree();
  const TokenId a = tree.tokens[1], b = tree.tokens[3];
  const std::vector<TokenId> tokens = {std::min(a, b), std::max(a, b)};
  tree.distributions.Add(tokens,
                         {kDistributionTotal / 4, kDistributionTotal / 4 * 3});
  tree.samples = {{.node = 1, .distribution = 0},
                  {.node = 2},
                  {.node = 1, .distribution = 0},
                  {.node = 4},
                  {.node = 3, .distribution = 0}};
  return tree;
}

TEST(TokenTreeValidate, TakesTreesWithDistributions) {
  EXPECT_TRUE(TreeWithDistributions().Validate(kLimits).ok());
}

TEST(TokenTreeValidate, RefusesSamplesThatCannotBe) {
  TokenTree tree = TreeWithDistributions();
  tree.samples[0].node = 0;
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 0: has a sample"));
  tree = TreeWithDistributions();
  tree.samples[0].node = 5;
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 5: has a sample"));
  for (int32_t distribution : {-2, 1}) {
    tree = TreeWithDistributions();
    tree.samples[2].distribution = distribution;
    EXPECT_THAT(ErrorOf(tree), HasSubstr("node 1: sampled from distribution"));
  }
  tree = TreeWithDistributions();
  tree.samples[1].distribution = 0;
  EXPECT_THAT(ErrorOf(tree),
              HasSubstr("node 2: sampled from a distribution that lacks"));
  tree = TreeWithDistributions();
  tree.samples.pop_back();
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 3: has no sample"));
  tree = TreeWithDistributions();
  tree.samples.resize(TokenTree::kMaxSamplesPerNode * 5 + 1, {.node = 2});
  EXPECT_THAT(ErrorOf(tree), HasSubstr("321 samples, limit 320"));
}

TEST(TokenTreeValidate, RefusesDrawsWithoutReplacementThatCannotBe) {
  const std::vector<TokenId> tokens = {3, 7};
  const auto tree_of = [&tokens](std::vector<int32_t> parents) {
    TokenTree tree = TokenTree::RootOnly(1);
    for (size_t i = 0; i < parents.size(); ++i) {
      tree.Add(parents[i], tokens[i % 2], -1);
      tree.samples.push_back(
          {.node = static_cast<int32_t>(i) + 1, .distribution = 0});
    }
    tree.distributions.Add(tokens,
                           {kDistributionTotal / 2, kDistributionTotal / 2},
                           SampleDependence::kWithoutReplacement);
    return tree;
  };
  TokenTree tree = tree_of({0, 0});
  EXPECT_TRUE(tree.Validate(kLimits).ok());
  tree.samples.push_back({.node = 2, .distribution = 0});
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 2: sampled twice"));
  EXPECT_THAT(ErrorOf(tree_of({0, 0, 0})), HasSubstr("node 3: sampled twice"));
  EXPECT_THAT(ErrorOf(tree_of({0, 1})),
              HasSubstr("node 2: sampled without replacement, as node 1 of "
                        "another parent"));
}

TEST(TokenTreeValidate, RefusesWhatIsNoDistribution) {
  const struct {
    std::vector<TokenId> tokens;
    std::vector<uint32_t> weights;
    const char* problem;
  } cases[] = {
      {{}, {}, "the weights do not sum"},
      {{1}, {kDistributionTotal - 1}, "the weights do not sum"},
      {{1, 2},
       {kDistributionTotal, kDistributionTotal},
       "the weights do not sum"},
      {{1, 2}, {kDistributionTotal, 0}, "a weight is 0"},
      {{2, 1}, {kDistributionTotal - 1, 1}, "tokens do not ascend"},
      {{1, 1}, {kDistributionTotal - 1, 1}, "tokens do not ascend"},
      {{-1}, {kDistributionTotal}, "a token is no token"},
      {{1 << 30}, {kDistributionTotal}, "a token is no token"},
  };
  for (const auto& test : cases) {
    TokenTree tree = TreeWithDistributions();
    tree.distributions.Add(test.tokens, test.weights);
    EXPECT_THAT(ErrorOf(tree), HasSubstr("distribution 1: ")) << test.problem;
    EXPECT_THAT(ErrorOf(tree), HasSubstr(test.problem));
  }
}

TEST(DistributionWeights, SumUpAndAreWithinOneOfTheirShare) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> logit(0, 4);
  for (size_t size : {1, 2, 7, 20, 1000}) {
    std::vector<double> distribution(size);
    double sum = 0;
    for (double& p : distribution) sum += p = std::exp(logit(random));
    const std::vector<uint32_t> weights = DistributionWeights(distribution);
    EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), uint64_t{0}),
              kDistributionTotal);
    for (size_t i = 0; i < size; ++i) {
      EXPECT_NEAR(weights[i], distribution[i] / sum * kDistributionTotal, 1);
    }
  }
  EXPECT_EQ(DistributionWeights({0, 1, 0}),
            (std::vector<uint32_t>{0, kDistributionTotal, 0}));
}

TokenTree RandomTree(int64_t nodes, std::mt19937_64& random) {
  TokenTree tree = TokenTree::RootOnly(static_cast<TokenId>(random() % 100));
  for (int64_t i = 0; i < nodes; ++i) {
    const int32_t parent = static_cast<int32_t>(random() % tree.num_nodes());
    tree.Add(parent, static_cast<TokenId>(random() % 100),
             tree.log_probs[parent] - static_cast<float>(random() % 8) / 4);
  }
  return tree;
}

TEST(TokenTree, RandomTreesAreValidAndTheirPathsAndDepthsAgree) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t nodes = static_cast<int64_t>(random() % 60);
    const TokenTree tree = RandomTree(nodes, random);
    EXPECT_TRUE(tree.Validate({nodes, nodes, 100}).ok());
    const std::vector<int32_t> depths = tree.Depths();
    for (int32_t node = 0; node < tree.num_nodes(); ++node) {
      const std::vector<int32_t> path = tree.PathTo(node);
      EXPECT_EQ(static_cast<int32_t>(path.size()), depths[node]);
      int32_t parent = 0;
      for (int32_t step : path) {
        EXPECT_EQ(tree.parents[step], parent);
        parent = step;
      }
      EXPECT_EQ(parent, node);
    }
  }
}

TEST(TokenTree, PathsAndDepthsOfASmallTree) {
  const TokenTree tree = ValidTree();
  EXPECT_THAT(tree.Depths(), ElementsAre(0, 1, 1, 2, 3));
  EXPECT_THAT(tree.PathTo(0), IsEmpty());
  EXPECT_THAT(tree.PathTo(2), ElementsAre(2));
  EXPECT_THAT(tree.PathTo(4), ElementsAre(1, 3, 4));
}

}  // namespace
}  // namespace espalier
