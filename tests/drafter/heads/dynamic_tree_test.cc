#include "drafter/heads/dynamic_tree.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;

// Returns a random distribution over 12 tokens that depends on the path, best
// first.
std::vector<Candidate> DistributionAfter(uint64_t seed,
                                         const std::vector<TokenId>& path) {
  for (TokenId token : path) seed = seed * 6364136223846793005u + token + 1;
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> weight;
  std::vector<Candidate> distribution;
  double sum = 0;
  for (TokenId token = 0; token < 12; ++token) {
    distribution.push_back({token, weight(random)});
    sum += distribution.back().log_prob;
  }
  for (Candidate& c : distribution) c.log_prob = std::log(c.log_prob / sum);
  std::sort(
      distribution.begin(), distribution.end(),
      [](const auto& a, const auto& b) { return a.log_prob > b.log_prob; });
  return distribution;
}

std::vector<TokenId> PathOf(const DynamicTree& tree, int32_t node) {
  std::vector<TokenId> path;
  for (; node != 0; node = tree.node(node).parent) {
    path.insert(path.begin(), tree.node(node).token);
  }
  return path;
}

struct Grown {
  TokenTree tree;
  int64_t expanded = 0;
};

Grown Grow(uint64_t seed, const DraftBudget& budget, int64_t width) {
  DynamicTree tree(99, budget, {.width = width});
  Grown grown;
  while (!tree.frontier().empty()) {
    std::vector<std::vector<Candidate>> children;
    for (int32_t node : tree.frontier()) {
      children.push_back(DistributionAfter(seed, PathOf(tree, node)));
      children.back().resize(width);
      ++grown.expanded;
    }
    tree.Expand(children);
  }
  grown.tree = tree.Tree();
  return grown;
}

// EAGLE-2 to the letter: every level's beam is expanded, whatever its chance.
TokenTree Literal(uint64_t seed, const DraftBudget& budget, size_t width) {
  struct Node {
    std::vector<TokenId> path;
    double score = 0;
  };
  auto by_score = [](const Node& a, const Node& b) {
    return a.score > b.score;
  };
  std::vector<Node> all, beam = {{}};
  for (int64_t depth = 0; depth < budget.max_depth; ++depth) {
    std::vector<Node> level;
    for (const Node& parent : beam) {
      const auto distribution = DistributionAfter(seed, parent.path);
      for (size_t i = 0; i < width; ++i) {
        level.push_back({parent.path, parent.score + distribution[i].log_prob});
        level.back().path.push_back(distribution[i].token);
      }
    }
    all.insert(all.end(), level.begin(), level.end());
    std::stable_sort(level.begin(), level.end(), by_score);
    level.resize(std::min(level.size(), width));
    beam = level;
  }
  std::stable_sort(all.begin(), all.end(), by_score);
  all.resize(std::min<size_t>(all.size(), budget.max_nodes));
  TokenTree tree = TokenTree::RootOnly(99);
  std::vector<std::vector<TokenId>> paths = {{}};
  for (const Node& node : all) {
    const std::vector<TokenId> above(node.path.begin(), node.path.end() - 1);
    const auto parent = std::find(paths.begin(), paths.end(), above);
    tree.Add(static_cast<int32_t>(parent - paths.begin()), node.path.back(),
             static_cast<float>(node.score));
    paths.push_back(node.path);
  }
  return tree;
}

TEST(DynamicTreeTest, IsEagle2sTreeForLessWork) {
  int64_t expanded = 0, literally = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const DraftBudget budget = {
        .max_nodes = 1 + static_cast<int64_t>(seed % 30),
        .max_depth = 1 + static_cast<int64_t>(seed % 7)};
    const int64_t width = 1 + seed % 5;
    const Grown grown = Grow(seed, budget, width);
    const TokenTree literal = Literal(seed, budget, width);
    ASSERT_EQ(grown.tree.tokens, literal.tokens) << seed;
    ASSERT_EQ(grown.tree.parents, literal.parents) << seed;
    ASSERT_EQ(grown.tree.log_probs, literal.log_probs) << seed;
    expanded += grown.expanded;
    literally += 1 + (budget.max_depth - 1) * width;
  }
  EXPECT_LT(expanded, literally * 2 / 3);
}

TEST(DynamicTreeTest, EveryPrefixIsTheBestTreeOfItsSize) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const TokenTree large =
        Grow(seed, {.max_nodes = 25, .max_depth = 5}, 4).tree;
    for (int64_t size : {1, 5, 13}) {
      const TokenTree small =
          Grow(seed, {.max_nodes = size, .max_depth = 5}, 4).tree;
      ASSERT_EQ(small.tokens,
                std::vector(large.tokens.begin(),
                            large.tokens.begin() + small.num_nodes()));
    }
  }
}

TEST(DynamicTreeTest, TiesKeepParentsBeforeChildren) {
  DynamicTree tree(7, {.max_nodes = 3, .max_depth = 3}, {.width = 2});
  // A certain chain: every node has the score of its parent.
  for (TokenId token = 0; !tree.frontier().empty(); ++token) {
    tree.Expand(std::vector<std::vector<Candidate>>(
        tree.frontier().size(), {{token, 0.0}, {token + 10, -1.0}}));
  }
  EXPECT_THAT(tree.Tree().tokens, ElementsAre(7, 0, 1, 2));
  EXPECT_THAT(tree.Tree().parents, ElementsAre(kNoParent, 0, 1, 2));
}

TEST(DynamicTreeTest, NothingToExpandWithoutABudget) {
  EXPECT_TRUE(DynamicTree(7, {.max_nodes = 0, .max_depth = 3}, {.width = 2})
                  .frontier()
                  .empty());
  EXPECT_TRUE(DynamicTree(7, {.max_nodes = 3, .max_depth = 0}, {.width = 2})
                  .frontier()
                  .empty());
  EXPECT_EQ(DynamicTree(7, {.max_nodes = 3, .max_depth = 0}, {.width = 2})
                .Tree()
                .num_nodes(),
            1);
}

TEST(DynamicTreeTest, NodesWithoutChildrenEndTheTree) {
  DynamicTree tree(7, {.max_nodes = 9, .max_depth = 9}, {.width = 2});
  tree.Expand(std::vector<std::vector<Candidate>>{{{3, -0.5}}});
  ASSERT_THAT(tree.frontier(), ElementsAre(1));
  tree.Expand(std::vector<std::vector<Candidate>>{{}});
  EXPECT_TRUE(tree.frontier().empty());
  EXPECT_THAT(tree.Tree().tokens, ElementsAre(7, 3));
}

TEST(DynamicTreeTest, ALevelThatTheTextHardlyReachesIsNotExpanded) {
  DynamicTree tree(7, {.max_nodes = 9, .max_depth = 9},
                   {.width = 2, .least_reach = 0.3});
  const double half = std::log(0.5), tenth = std::log(0.1);
  tree.Expand(std::vector<std::vector<Candidate>>{{{3, half}, {4, tenth}}});
  ASSERT_THAT(tree.frontier(), ElementsAre(1, 2));  // .6
  tree.Expand(std::vector<std::vector<Candidate>>{{{5, half}}, {{6, half}}});
  ASSERT_THAT(tree.frontier(), ElementsAre(3, 4));  // .3
  tree.Expand(std::vector<std::vector<Candidate>>{{{5, half}}, {{6, half}}});
  EXPECT_TRUE(tree.frontier().empty());   // .15
  EXPECT_EQ(tree.Tree().num_nodes(), 7);  // what was drafted is used
}

}  // namespace
}  // namespace espalier::drafter
