#include "drafter/dflash/ddtree.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using Lists = std::vector<std::vector<Candidate>>;

constexpr TokenId kRoot = 7;

DraftBudget Nodes(int64_t max_nodes) {
  return {.max_nodes = max_nodes, .max_depth = 16};
}

// Lists of all `vocab` tokens, sorted. `sharpness`: deviation of their logits.
Lists RandomMarginals(std::mt19937_64& random, int positions, int vocab,
                      double sharpness) {
  std::normal_distribution<double> normal(0, sharpness);
  Lists lists(positions);
  for (auto& list : lists) {
    double sum = 0;
    for (int x = 0; x < vocab; ++x) {
      list.push_back({x, normal(random)});
      sum += std::exp(list.back().log_prob);
    }
    for (Candidate& candidate : list) {
      candidate.log_prob = std::min(0.0, candidate.log_prob - std::log(sum));
    }
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.log_prob > b.log_prob;
    });
  }
  return lists;
}

// A path of a tree: its score and its ranks.
struct Path {
  double log_prob = 0;
  std::vector<int> ranks;

  friend bool operator<(const Path& a, const Path& b) {
    return a.log_prob != b.log_prob ? a.log_prob > b.log_prob
                                    : a.ranks < b.ranks;
  }
};

void ListPaths(const Lists& lists, const Path& path, std::vector<Path>& out) {
  if (path.ranks.size() == lists.size()) return;
  const auto& list = lists[path.ranks.size()];
  for (int rank = 0; rank < std::ssize(list); ++rank) {
    Path next = path;
    next.log_prob += list[rank].log_prob;
    next.ranks.push_back(rank);
    out.push_back(next);
    ListPaths(lists, next, out);
  }
}

// Every path there is, best first.
std::vector<Path> AllPaths(const Lists& lists) {
  std::vector<Path> paths;
  ListPaths(lists, {}, paths);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Returns the ranks of each node's path.
std::vector<std::vector<int>> RanksOf(const TokenTree& tree,
                                      const Lists& lists) {
  std::vector<std::vector<int>> ranks(tree.num_nodes());
  for (int i = 1; i < tree.num_nodes(); ++i) {
    ranks[i] = ranks[tree.parents[i]];
    const auto& list = lists[ranks[i].size()];
    ranks[i].push_back(
        std::find_if(list.begin(), list.end(),
                     [&](const auto& c) { return c.token == tree.tokens[i]; }) -
        list.begin());
  }
  return ranks;
}

double ExpectedAccepted(const TokenTree& tree) {
  double sum = 0;
  for (int i = 1; i < tree.num_nodes(); ++i) sum += std::exp(tree.log_probs[i]);
  return sum;
}

// Returns the most that any tree of `nodes` nodes expects, by trying all of
// them: each path is taken or not, and a path needs its parent.
double BestByTrying(const std::vector<Path>& paths, int64_t nodes) {
  double best = 0;
  for (uint32_t taken = 0; taken < 1u << paths.size(); ++taken) {
    if (__builtin_popcount(taken) > nodes) continue;
    std::set<std::vector<int>> prefixes = {{}};
    double sum = 0;
    bool closed = true;
    for (size_t i = 0; i < paths.size() && closed; ++i) {
      if ((taken >> i & 1) == 0) continue;
      std::vector<int> parent = paths[i].ranks;
      parent.pop_back();
      closed = prefixes.contains(parent);
      prefixes.insert(paths[i].ranks);
      sum += std::exp(paths[i].log_prob);
    }
    if (closed) best = std::max(best, sum);
  }
  return best;
}

TEST(DdtreeTest, EqualsTheBestOfAllTreesOnSmallCases) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    const Lists lists = RandomMarginals(random, /*positions=*/2 + round % 2,
                                        /*vocab=*/round % 2 ? 2 : 3, 1.5);
    const std::vector<Path> paths = AllPaths(lists);
    for (int64_t nodes = 0; nodes <= 6; ++nodes) {
      const TokenTree tree = BuildDdtree(kRoot, lists, Nodes(nodes));
      EXPECT_NEAR(ExpectedAccepted(tree), BestByTrying(paths, nodes), 1e-6)
          << round << ", " << nodes;
    }
  }
}

TEST(DdtreeTest, ListsTheLikeliestPathsBestFirst) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50; ++round) {
    const Lists lists =
        RandomMarginals(random, 1 + round % 5, 1 + round % 6, 0.2 + round % 4);
    const std::vector<Path> paths = AllPaths(lists);
    const int64_t nodes = random() % 300;
    const TokenTree tree = BuildDdtree(kRoot, lists, Nodes(nodes));
    const auto ranks = RanksOf(tree, lists);
    ASSERT_EQ(tree.num_nodes() - 1,
              std::min<int64_t>(nodes, std::ssize(paths)));
    for (int i = 1; i < tree.num_nodes(); ++i) {
      ASSERT_EQ(ranks[i], paths[i - 1].ranks) << round << ", node " << i;
      ASSERT_FLOAT_EQ(tree.log_probs[i], paths[i - 1].log_prob);
    }
  }
}

TEST(DdtreeTest, IsAValidTreeWhosePrefixesAreTheSmallerTrees) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 30; ++round) {
    const Lists lists = RandomMarginals(random, 15, 40, 1 + round % 5);
    const TokenTree tree = BuildDdtree(kRoot, lists, Nodes(kMaxDdtreeNodes));
    ASSERT_TRUE(
        tree.Validate({.max_nodes = 1024, .max_depth = 15, .vocab_size = 40})
            .ok());
    EXPECT_EQ(tree.num_nodes(), 1025);
    std::set<std::pair<int32_t, TokenId>> edges;
    for (int i = 1; i < tree.num_nodes(); ++i) {
      EXPECT_TRUE(edges.insert({tree.parents[i], tree.tokens[i]}).second);
      EXPECT_LE(tree.log_probs[i], tree.log_probs[i - 1]);
    }
    const int64_t nodes = random() % 1024;
    const TokenTree smaller = BuildDdtree(kRoot, lists, Nodes(nodes));
    for (int64_t i = 0; i <= nodes; ++i) {
      ASSERT_EQ(smaller.tokens[i], tree.tokens[i]);
      ASSERT_EQ(smaller.parents[i], tree.parents[i]);
    }
  }
}

TEST(DdtreeTest, TiesGoByRanksFromTheRootOn) {
  // Quarters and halves, so that many different paths are equally likely.
  const double half = std::log(0.5);
  Lists lists(5);
  for (int d = 0; d < 5; ++d) {
    lists[d] = {{10, half}, {d % 2 == 0 ? 3 : 30, 2 * half}, {20, 2 * half}};
  }
  const std::vector<Path> paths = AllPaths(lists);
  const TokenTree tree = BuildDdtree(kRoot, lists, Nodes(1024));
  const auto ranks = RanksOf(tree, lists);
  ASSERT_EQ(tree.num_nodes() - 1, std::ssize(paths));
  for (int i = 1; i < tree.num_nodes(); ++i) {
    ASSERT_EQ(ranks[i], paths[i - 1].ranks) << i;
  }
}

TEST(DdtreeTest, AllEqualIsDepthFirst) {
  const Lists lists(3, {{1, 0.0}, {2, 0.0}});
  const TokenTree tree = BuildDdtree(kRoot, lists, Nodes(6));
  EXPECT_THAT(tree.tokens, ElementsAre(kRoot, 1, 1, 1, 2, 2, 1));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 1, 2, 2, 1, 5));
}

TEST(DdtreeTest, NoBudgetIsTheRootAlone) {
  const Lists lists = {{{1, -0.1}}};
  for (const DraftBudget budget :
       {Nodes(0), DraftBudget{.max_nodes = 9, .max_depth = 0}}) {
    EXPECT_EQ(BuildDdtree(kRoot, lists, budget).num_nodes(), 1);
    EXPECT_EQ(BuildChain(kRoot, lists, budget).num_nodes(), 1);
  }
  EXPECT_EQ(BuildDdtree(kRoot, {}, Nodes(9)).num_nodes(), 1);
  EXPECT_EQ(BuildChain(kRoot, {}, Nodes(9)).num_nodes(), 1);
}

TEST(DdtreeTest, StopsAtTheDepthAndAtAPositionWithoutCandidates) {
  const Lists lists = {{{1, -0.1}}, {{2, -0.1}}, {}, {{4, -0.1}}};
  EXPECT_THAT(BuildDdtree(kRoot, lists, Nodes(9)).tokens,
              ElementsAre(kRoot, 1, 2));
  EXPECT_THAT(BuildChain(kRoot, lists, Nodes(9)).tokens,
              ElementsAre(kRoot, 1, 2));
  const DraftBudget flat = {.max_nodes = 9, .max_depth = 1};
  EXPECT_THAT(BuildDdtree(kRoot, lists, flat).tokens, ElementsAre(kRoot, 1));
  EXPECT_THAT(BuildChain(kRoot, lists, flat).tokens, ElementsAre(kRoot, 1));
}

TEST(DdtreeTest, ChainIsTheLikeliestPath) {
  std::mt19937_64 random(4);
  const Lists lists = RandomMarginals(random, 15, 20, 2);
  const TokenTree chain = BuildChain(kRoot, lists, Nodes(64));
  ASSERT_EQ(chain.num_nodes(), 16);
  double log_prob = 0;
  for (int i = 1; i <= 15; ++i) {
    EXPECT_EQ(chain.tokens[i], lists[i - 1][0].token);
    EXPECT_EQ(chain.parents[i], i - 1);
    log_prob += lists[i - 1][0].log_prob;
    EXPECT_FLOAT_EQ(chain.log_probs[i], log_prob);
  }
  EXPECT_EQ(BuildChain(kRoot, lists, Nodes(4)).num_nodes(), 5);
}

}  // namespace
}  // namespace espalier::drafter
