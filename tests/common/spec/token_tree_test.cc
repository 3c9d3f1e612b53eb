#include "common/spec/token_tree.h"

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

// Nodes 1 and 3 drawn, 1 twice; the others chosen.
TokenTree TreeWithLaws() {
  TokenTree tree = ValidTree();
  const TokenId a = tree.tokens[1], b = tree.tokens[3];
  const std::vector<TokenId> tokens = {std::min(a, b), std::max(a, b)};
  tree.laws.Add(tokens, {kLawTotal / 4, kLawTotal / 4 * 3});
  tree.slots = {{.node = 1, .law = 0},
                {.node = 2},
                {.node = 1, .law = 0},
                {.node = 4},
                {.node = 3, .law = 0}};
  return tree;
}

TEST(TokenTreeValidate, TakesTreesWithLaws) {
  EXPECT_TRUE(TreeWithLaws().Validate(kLimits).ok());
}

TEST(TokenTreeValidate, RefusesSlotsThatCannotBe) {
  TokenTree tree = TreeWithLaws();
  tree.slots[0].node = 0;
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 0: has a slot"));
  tree = TreeWithLaws();
  tree.slots[0].node = 5;
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 5: has a slot"));
  for (int32_t law : {-2, 1}) {
    tree = TreeWithLaws();
    tree.slots[2].law = law;
    EXPECT_THAT(ErrorOf(tree), HasSubstr("node 1: drawn from law"));
  }
  tree = TreeWithLaws();
  tree.slots[1].law = 0;
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 2: drawn from a law that lacks"));
  tree = TreeWithLaws();
  tree.slots.pop_back();
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 3: has no slot"));
  tree = TreeWithLaws();
  tree.slots.resize(TokenTree::kMaxFinds * 5 + 1, {.node = 2});
  EXPECT_THAT(ErrorOf(tree), HasSubstr("321 slots, limit 320"));
}

TEST(TokenTreeValidate, RefusesDrawsWithoutReplacementThatCannotBe) {
  const std::vector<TokenId> tokens = {3, 7};
  const auto tree_of = [&tokens](std::vector<int32_t> parents) {
    TokenTree tree = TokenTree::RootOnly(1);
    for (size_t i = 0; i < parents.size(); ++i) {
      tree.Add(parents[i], tokens[i % 2], -1);
      tree.slots.push_back({.node = static_cast<int32_t>(i) + 1, .law = 0});
    }
    tree.laws.Add(tokens, {kLawTotal / 2, kLawTotal / 2},
                  LawDraws::kWithoutReplacement);
    return tree;
  };
  TokenTree tree = tree_of({0, 0});
  EXPECT_TRUE(tree.Validate(kLimits).ok());
  tree.slots.push_back({.node = 2, .law = 0});
  EXPECT_THAT(ErrorOf(tree), HasSubstr("node 2: drawn twice"));
  EXPECT_THAT(ErrorOf(tree_of({0, 0, 0})), HasSubstr("node 3: drawn twice"));
  EXPECT_THAT(ErrorOf(tree_of({0, 1})),
              HasSubstr("node 2: drawn without replacement, as node 1 of "
                        "another parent"));
}

TEST(TokenTreeValidate, RefusesWhatIsNoLaw) {
  const struct {
    std::vector<TokenId> tokens;
    std::vector<uint32_t> weights;
    const char* problem;
  } cases[] = {
      {{}, {}, "the weights do not sum"},
      {{1}, {kLawTotal - 1}, "the weights do not sum"},
      {{1, 2}, {kLawTotal, kLawTotal}, "the weights do not sum"},
      {{1, 2}, {kLawTotal, 0}, "a weight is 0"},
      {{2, 1}, {kLawTotal - 1, 1}, "tokens do not ascend"},
      {{1, 1}, {kLawTotal - 1, 1}, "tokens do not ascend"},
      {{-1}, {kLawTotal}, "a token is no token"},
      {{1 << 30}, {kLawTotal}, "a token is no token"},
  };
  for (const auto& test : cases) {
    TokenTree tree = TreeWithLaws();
    tree.laws.Add(test.tokens, test.weights);
    EXPECT_THAT(ErrorOf(tree), HasSubstr("law 1: ")) << test.problem;
    EXPECT_THAT(ErrorOf(tree), HasSubstr(test.problem));
  }
}

TEST(LawWeights, SumUpAndAreWithinOneOfTheirShare) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> logit(0, 4);
  for (size_t size : {1, 2, 7, 20, 1000}) {
    std::vector<double> law(size);
    double sum = 0;
    for (double& p : law) sum += p = std::exp(logit(random));
    const std::vector<uint32_t> weights = LawWeights(law);
    EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), uint64_t{0}),
              kLawTotal);
    for (size_t i = 0; i < size; ++i) {
      EXPECT_NEAR(weights[i], law[i] / sum * kLawTotal, 1);
    }
  }
  EXPECT_EQ(LawWeights({0, 1, 0}), (std::vector<uint32_t>{0, kLawTotal, 0}));
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
