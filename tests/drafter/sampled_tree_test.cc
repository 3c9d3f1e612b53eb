#include "drafter/sampled_tree.h"

#include <cmath>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

constexpr int64_t kVocab = 8;
constexpr DrawScheme kSchemes[] = {DrawScheme::kIndependent,
                                   DrawScheme::kGreedyPlusOne,
                                   DrawScheme::kWithoutReplacement};

// A law that turns with the length of the path.
std::vector<Candidate> Law(absl::Span<const TokenId> path) {
  std::vector<Candidate> law;
  double sum = 0;
  for (TokenId token = 0; token < kVocab; ++token) {
    const double weight = 1.0 / (1 + (token + path.size()) % kVocab);
    sum += weight;
    law.push_back({token, weight});
  }
  for (Candidate& candidate : law) {
    candidate.log_prob = std::log(candidate.log_prob / sum);
  }
  return law;
}

class SampledTreeTest : public ::testing::Test {
 protected:
  TokenTree Build(const SampledShape& shape) {
    const SequenceView view = {
        .tokens = tokens_,
        .sampling = {.temperature = temperature_, .seed = seed_},
        .budget = budget_};
    return BuildSampledTree(view, shape, Law);
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

TEST_F(SampledTreeTest, HasAsManyAttemptsAsItsBranches) {
  const TokenTree tree =
      Build({.branches = {4, 2, 1}, .top = 20, .noise_key = 9});
  ExpectValid(tree);
  std::map<int32_t, int> attempts;  // by depth
  const std::vector<int32_t> depths = tree.Depths();
  for (const DraftSlot& slot : tree.slots) {
    ++attempts[depths[slot.node]];
    EXPECT_NE(slot.law, DraftSlot::kChosen);
  }
  EXPECT_EQ(attempts, (std::map<int32_t, int>{{1, 4}, {2, 8}, {3, 8}}));
}

TEST_F(SampledTreeTest, StaysWithinTheBudgetWhateverItDraws) {
  for (int64_t nodes : {0, 1, 3, 7, 20, 64}) {
    for (int64_t depth : {0, 1, 2, 8}) {
      for (DrawScheme scheme : kSchemes) {
        budget_ = {.max_nodes = nodes, .max_depth = depth};
        const TokenTree tree = Build({.branches = {4, 2, 3}, .scheme = scheme});
        ExpectValid(tree);
        EXPECT_LE(std::ssize(tree.slots), nodes);
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
  ASSERT_EQ(tree.laws.size(), 1);
  EXPECT_EQ(tree.laws[0].tokens[0], 2);
  EXPECT_EQ(tree.slots, (std::vector<DraftSlot>{
                            {.node = 1}, {.node = 2}, {.node = 3, .law = 0}}));
}

TEST_F(SampledTreeTest, TemperatureSharpensLawsWithoutLosingThem) {
  temperature_ = 0.01f;
  const TokenTree tree =
      Build({.branches = {3}, .scheme = DrawScheme::kGreedyPlusOne});
  ExpectValid(tree);
  ASSERT_EQ(tree.laws.size(), 1);
  EXPECT_EQ(tree.laws[0].tokens, (std::vector<TokenId>{2}));
}

TEST_F(SampledTreeTest, CutsLawsToTheLikeliest) {
  const TokenTree tree = Build({.branches = {2}, .top = 3});
  EXPECT_EQ(tree.laws[0].tokens, (std::vector<TokenId>{0, 1, 2}));
}

TEST_F(SampledTreeTest, DrawsFollowTheLawThatIsShipped) {
  constexpr int kRounds = 20000;
  std::map<TokenId, double> first;
  std::map<std::pair<TokenId, TokenId>, double> both;
  TokenTree tree;
  for (seed_ = 0; seed_ < kRounds; ++seed_) {
    tree = Build({.branches = {2}, .noise_key = 3});
    const TokenId a = tree.tokens[tree.slots[0].node];
    const TokenId b = tree.tokens[tree.slots[1].node];
    first[a] += 1.0 / kRounds;
    both[{a, b}] += 1.0 / kRounds;
  }
  const DraftLaw law = tree.laws[0];
  const auto share = [&law](size_t i) {
    return static_cast<double>(law.weights[i]) / kLawTotal;
  };
  for (size_t i = 0; i < law.tokens.size(); ++i) {
    EXPECT_NEAR(first[law.tokens[i]], share(i), 0.02);
    for (size_t j = 0; j < law.tokens.size(); ++j) {
      const std::pair tokens = {law.tokens[i], law.tokens[j]};
      EXPECT_NEAR(both[tokens], share(i) * share(j), 0.02);
    }
  }
}

TEST_F(SampledTreeTest, DrawsWithoutReplacementFollowWhatIsLeftOfTheLaw) {
  constexpr int kRounds = 20000;
  std::map<std::pair<TokenId, TokenId>, double> both;
  TokenTree tree;
  for (seed_ = 0; seed_ < kRounds; ++seed_) {
    tree = Build({.branches = {2},
                  .scheme = DrawScheme::kWithoutReplacement,
                  .noise_key = 3});
    both[{tree.tokens[1], tree.tokens[2]}] += 1.0 / kRounds;
  }
  const DraftLaw law = tree.laws[0];
  EXPECT_EQ(law.draws, LawDraws::kWithoutReplacement);
  const auto share = [&law](size_t i) {
    return static_cast<double>(law.weights[i]) / kLawTotal;
  };
  for (size_t i = 0; i < law.tokens.size(); ++i) {
    for (size_t j = 0; j < law.tokens.size(); ++j) {
      const double wanted = i == j ? 0 : share(i) * share(j) / (1 - share(i));
      const std::pair tokens = {law.tokens[i], law.tokens[j]};
      EXPECT_NEAR(both[tokens], wanted, 0.02);
    }
  }
}

TEST_F(SampledTreeTest, WithoutReplacementNothingIsDrawnTwice) {
  const TokenTree tree = Build({.branches = {6, 2},
                                .scheme = DrawScheme::kWithoutReplacement,
                                .top = 4});
  ExpectValid(tree);
  // The law has no more than four tokens.
  EXPECT_EQ(std::ssize(tree.slots), 4 + 4 * 2);
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
}  // namespace espalier::drafter
