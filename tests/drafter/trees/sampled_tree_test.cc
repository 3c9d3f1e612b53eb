#include "drafter/trees/sampled_tree.h"

#include <cmath>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::drafter::sampled_tree_test {
namespace {

constexpr int64_t kVocab = 8;
constexpr DrawScheme kSchemes[] = {DrawScheme::kIndependent,
                                   DrawScheme::kGreedyPlusOne,
                                   DrawScheme::kWithoutReplacement};

// Returns a distribution that turns with the length of the path.
std::vector<Candidate> Distribution(absl::Span<const TokenId> path) {
  std::vector<Candidate> distribution;
  double sum = 0;
  for (TokenId token = 0; token < kVocab; ++token) {
    const double weight = 1.0 / (1 + (token + path.size()) % kVocab);
    sum += weight;
    distribution.push_back({token, weight});
  }
  for (Candidate& candidate : distribution) {
    candidate.log_prob = std::log(candidate.log_prob / sum);
  }
  return distribution;
}

class SampledTreeTest : public ::testing::Test {
 protected:
  TokenTree Build(const SampledShape& shape) {
    const SequenceView view = {
        .tokens = tokens_,
        .sampling = {.temperature = temperature_, .seed = seed_},
        .budget = budget_};
    return BuildSampledTree(view, shape, Distribution);
  }
  static void ExpectValid(const TokenTree& tree) {
    const absl::Status status =
        tree.Validate({.max_nodes = 64, .max_depth = 8, .vocab_size = kVocab});
    EXPECT_TRUE(status.ok()) << status;
  }

  std::vector<TokenId> tokens_ = {1, 2, 3};
  float temperature_ = 1;
  uint64_t seed_ = 5;
  DraftBudget budget_ = {.max_nodes = 64, .max_depth = 8};
};

TEST_F(SampledTreeTest, HasAsManySamplesAsItsBranches) {
  const TokenTree tree =
      Build({.branches = {4, 2, 1}, .top = 20, .noise_key = 9});
  ExpectValid(tree);
  std::map<int32_t, int> samples;  // by depth
  const std::vector<int32_t> depths = tree.Depths();
  for (const DraftSample& sample : tree.samples) {
    ++samples[depths[sample.node]];
    EXPECT_NE(sample.distribution, DraftSample::kDeterministic);
  }
  EXPECT_EQ(samples, (std::map<int32_t, int>{{1, 4}, {2, 8}, {3, 8}}));
}

TEST_F(SampledTreeTest, StaysWithinTheBudgetWhateverItDraws) {
  for (int64_t nodes : {0, 1, 3, 7, 20, 64}) {
    for (int64_t depth : {0, 1, 2, 8}) {
      for (DrawScheme scheme : kSchemes) {
        budget_ = {.max_nodes = nodes, .max_depth = depth};
        const TokenTree tree = Build({.branches = {4, 2, 3}, .scheme = scheme});
        ExpectValid(tree);
        EXPECT_LE(std::ssize(tree.samples), nodes);
        for (int32_t d : tree.Depths()) EXPECT_LE(d, depth);
      }
    }
  }
}

TEST_F(SampledTreeTest, GreedyPlusOneDrawsTheLastFromTheOthers) {
  const TokenTree tree =
      Build({.branches = {3}, .scheme = DrawScheme::kGreedyPlusOne});
  ExpectValid(tree);
  EXPECT_EQ(tree.tokens[1], 0);  // the likeliest two
  EXPECT_EQ(tree.tokens[2], 1);
  ASSERT_EQ(tree.distributions.size(), 1);
  EXPECT_EQ(tree.distributions[0].tokens[0], 2);
  EXPECT_EQ(tree.samples,
            (std::vector<DraftSample>{
                {.node = 1}, {.node = 2}, {.node = 3, .distribution = 0}}));
}

TEST_F(SampledTreeTest, TemperatureSharpensDistributionsWithoutLosingThem) {
  temperature_ = 0.01f;
  const TokenTree tree =
      Build({.branches = {3}, .scheme = DrawScheme::kGreedyPlusOne});
  ExpectValid(tree);
  ASSERT_EQ(tree.distributions.size(), 1);
  EXPECT_EQ(tree.distributions[0].tokens, (std::vector<TokenId>{2}));
}

TEST_F(SampledTreeTest, CutsDistributionsToTheLikeliest) {
  const TokenTree tree = Build({.branches = {2}, .top = 3});
  EXPECT_EQ(tree.distributions[0].tokens, (std::vector<TokenId>{0, 1, 2}));
}

TEST_F(SampledTreeTest, DrawsFollowTheDistributionThatIsShipped) {
  constexpr int kRounds = 20000;
  std::map<TokenId, double> first;
  std::map<std::pair<TokenId, TokenId>, double> both;
  TokenTree tree;
  for (seed_ = 0; seed_ < kRounds; ++seed_) {
    tree = Build({.branches = {2}, .noise_key = 3});
    const TokenId a = tree.tokens[tree.samples[0].node];
    const TokenId b = tree.tokens[tree.samples[1].node];
    first[a] += 1.0 / kRounds;
    both[{a, b}] += 1.0 / kRounds;
  }
  const DraftDistribution distribution = tree.distributions[0];
  const auto share = [&distribution](size_t i) {
    return static_cast<double>(distribution.weights[i]) / kDistributionTotal;
  };
  for (size_t i = 0; i < distribution.tokens.size(); ++i) {
    EXPECT_NEAR(first[distribution.tokens[i]], share(i), 0.02);
    for (size_t j = 0; j < distribution.tokens.size(); ++j) {
      const std::pair tokens = {distribution.tokens[i], distribution.tokens[j]};
      EXPECT_NEAR(both[tokens], share(i) * share(j), 0.02);
    }
  }
}

TEST_F(SampledTreeTest,
       DrawsWithoutReplacementFollowWhatIsLeftOfTheDistribution) {
  constexpr int kRounds = 20000;
  std::map<std::pair<TokenId, TokenId>, double> both;
  TokenTree tree;
  for (seed_ = 0; seed_ < kRounds; ++seed_) {
    tree = Build({.branches = {2},
                  .scheme = DrawScheme::kWithoutReplacement,
                  .noise_key = 3});
    both[{tree.tokens[1], tree.tokens[2]}] += 1.0 / kRounds;
  }
  const DraftDistribution distribution = tree.distributions[0];
  EXPECT_EQ(distribution.draws, SampleDependence::kWithoutReplacement);
  const auto share = [&distribution](size_t i) {
    return static_cast<double>(distribution.weights[i]) / kDistributionTotal;
  };
  for (size_t i = 0; i < distribution.tokens.size(); ++i) {
    for (size_t j = 0; j < distribution.tokens.size(); ++j) {
      const double wanted = i == j ? 0 : share(i) * share(j) / (1 - share(i));
      const std::pair tokens = {distribution.tokens[i], distribution.tokens[j]};
      EXPECT_NEAR(both[tokens], wanted, 0.02);
    }
  }
}

TEST_F(SampledTreeTest, WithoutReplacementNothingIsSampledTwice) {
  const TokenTree tree = Build({.branches = {6, 2},
                                .scheme = DrawScheme::kWithoutReplacement,
                                .top = 4});
  ExpectValid(tree);
  // The distribution has no more than four tokens.
  EXPECT_EQ(std::ssize(tree.samples), 4 + 4 * 2);
  EXPECT_EQ(tree.num_nodes(), 1 + 4 + 4 * 2);
}

TEST_F(SampledTreeTest, DependsOnKeySeedAndLength) {
  const SampledShape shape = {.branches = {8, 1, 1}, .noise_key = 1};
  const TokenTree tree = Build(shape);
  EXPECT_EQ(Build(shape).tokens, tree.tokens);
  EXPECT_NE(Build({.branches = {8, 1, 1}, .noise_key = 2}).tokens, tree.tokens);
  tokens_.insert(tokens_.begin(), 0);
  EXPECT_NE(Build(shape).tokens, tree.tokens);
  tokens_.erase(tokens_.begin());
  seed_ = 6;
  EXPECT_NE(Build(shape).tokens, tree.tokens);
}

}  // namespace
}  // namespace espalier::drafter::sampled_tree_test
