// Requirements of every registered merge policy, on random trees.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "coordinator/merge/calibration.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/merge/token_trie.h"
#include "gtest/gtest.h"

namespace espalier::coordinator::merge_policy_contract_test {
namespace {

constexpr TokenId kRoot = 9;
constexpr TokenTree::Limits kLimits = {
    .max_nodes = 1000, .max_depth = 1000, .vocab_size = 10};

using Path = std::vector<TokenId>;

std::vector<std::string> PolicyNames() {
  Registry<MergePolicy> registry("strategy");
  RegisterMergePolicies(registry);
  return registry.Names();
}

Path PathOf(const TokenTree& tree, int32_t node) {
  Path path;
  for (int32_t step : tree.PathTo(node)) path.push_back(tree.tokens[step]);
  return path;
}

std::set<Path> PathsOf(const TokenTree& tree) {
  std::set<Path> paths;
  for (int32_t i = 1; i < tree.num_nodes(); ++i) paths.insert(PathOf(tree, i));
  return paths;
}

// Few tokens and coarse log_probs, so that trees overlap and ties are frequent.
TokenTree RandomTree(std::mt19937_64& random) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  const int64_t num_nodes = random() % 12;
  for (int64_t i = 0; i < num_nodes; ++i) {
    const int32_t parent = static_cast<int32_t>(random() % tree.num_nodes());
    const float step = 0.5f * static_cast<float>(random() % 3);
    tree.Add(parent, static_cast<TokenId>(random() % 4),
             tree.log_probs[parent] - step);
  }
  return tree;
}

class MergePolicyContractTest : public testing::TestWithParam<std::string> {
 protected:
  MergePolicyContractTest() {
    Registry<MergePolicy> registry("strategy");
    RegisterMergePolicies(registry);
    policy_ = *registry.Create(GetParam());
  }

  static std::vector<DraftedTree> Draft(const std::vector<TokenTree>& trees) {
    std::vector<DraftedTree> drafted;
    for (size_t i = 0; i < trees.size(); ++i) {
      const int drafter = static_cast<int>(i);
      drafted.push_back(
          {.drafter = drafter, .tree = &trees[i], .peer = drafter});
    }
    return drafted;
  }

  TokenTree Merge(const std::vector<DraftedTree>& trees, int64_t max_nodes) {
    return policy_->Merge({.root = kRoot,
                           .trees = trees,
                           .max_nodes = max_nodes,
                           .calibration = &calibration_});
  }

  // The target's continuation after some of the trees.
  void LearnFrom(const std::vector<TokenTree>& trees, std::mt19937_64& random) {
    std::vector<TokenId> emitted(random() % 5);
    for (TokenId& token : emitted) token = static_cast<TokenId>(random() % 4);
    calibration_.Learn(TokenTrie(kRoot, Draft(trees)), emitted);
  }

  template <typename Check>
  void ForRandomTrees(Check check) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937_64 random(seed);
      std::vector<TokenTree> trees(1 + random() % 4);
      for (TokenTree& tree : trees) tree = RandomTree(random);
      check(trees, static_cast<int64_t>(random() % 20));
      LearnFrom(trees, random);
    }
  }

  std::unique_ptr<MergePolicy> policy_;
  Calibration shared_;
  SessionCalibration calibration_{&shared_};
};

TEST_P(MergePolicyContractTest, NoTreesGiveTheRootAlone) {
  const TokenTree merged = Merge({}, 16);
  EXPECT_EQ(merged.num_nodes(), 1);
  EXPECT_EQ(merged.tokens[0], kRoot);
  EXPECT_TRUE(merged.Validate(kLimits).ok());
}

TEST_P(MergePolicyContractTest, ResultIsValidAndWithinBudget) {
  ForRandomTrees([&](const std::vector<TokenTree>& trees, int64_t max_nodes) {
    const TokenTree merged = Merge(Draft(trees), max_nodes);
    TokenTree::Limits limits = kLimits;
    limits.max_nodes = max_nodes;
    EXPECT_TRUE(merged.Validate(limits).ok()) << merged.Validate(limits);
    EXPECT_EQ(merged.provenance.size(), merged.tokens.size());
  });
}

TEST_P(MergePolicyContractTest, EveryNodeIsOfThoseDraftersItIsSaidToBeOf) {
  ForRandomTrees([&](const std::vector<TokenTree>& trees, int64_t max_nodes) {
    const TokenTree merged = Merge(Draft(trees), max_nodes);
    for (int32_t node = 1; node < merged.num_nodes(); ++node) {
      ASSERT_NE(merged.provenance[node], 0u);
      ASSERT_EQ(merged.provenance[node] >> trees.size(), 0u);
      for (size_t i = 0; i < trees.size(); ++i) {
        if (merged.provenance[node] >> i & 1) {
          EXPECT_TRUE(PathsOf(trees[i]).contains(PathOf(merged, node)));
        }
      }
    }
  });
}

TEST_P(MergePolicyContractTest, OrderOfArrivalDoesNotMatter) {
  ForRandomTrees([&](const std::vector<TokenTree>& trees, int64_t max_nodes) {
    std::vector<DraftedTree> drafted = Draft(trees);
    const TokenTree merged = Merge(drafted, max_nodes);
    std::reverse(drafted.begin(), drafted.end());
    const TokenTree again = Merge(drafted, max_nodes);
    EXPECT_EQ(merged.tokens, again.tokens);
    EXPECT_EQ(merged.parents, again.parents);
    EXPECT_EQ(merged.log_probs, again.log_probs);
    EXPECT_EQ(merged.provenance, again.provenance);
  });
}

TEST_P(MergePolicyContractTest, DrafterThatAgreesWithAnotherAddsNoNode) {
  if (GetParam() == "disjoint")
    GTEST_SKIP() << "keeps duplicates by definition";
  ForRandomTrees([&](const std::vector<TokenTree>& trees, int64_t) {
    const TokenTree one = Merge(Draft({trees[0]}), 1000);
    const TokenTree two = Merge(Draft({trees[0], trees[0]}), 1000);
    EXPECT_EQ(one.num_nodes(), two.num_nodes());
    EXPECT_EQ(PathsOf(one), PathsOf(two));
  });
}

INSTANTIATE_TEST_SUITE_P(All, MergePolicyContractTest,
                         testing::ValuesIn(PolicyNames()),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace espalier::coordinator::merge_policy_contract_test
