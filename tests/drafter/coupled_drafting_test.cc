// Drafting under sampling: how many tokens of the coupled walk a tree predicts.
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "drafter/ngram/ngram_table_builder.h"
#include "drafter/ngram/ngram_table_file.h"
#include "drafter/trees/tree_builder.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter {
namespace {

// Returns a flat random distribution over 40 tokens that depends on the last
// two; `error` is the standard deviation of the log-probabilities of a drafter
// of that distribution.
std::vector<Candidate> SyntheticDistribution(
    const std::vector<TokenId>& context, double error) {
  uint64_t seed = 3;
  for (size_t i = context.size() - std::min<size_t>(2, context.size());
       i < context.size(); ++i) {
    seed = seed * 1009 + context[i] + 1;
  }
  std::mt19937_64 truth(seed);
  std::mt19937_64 noise(seed + 1);
  std::normal_distribution<double> logit(0, 1.5);
  std::normal_distribution<double> wrong(0, 1);
  std::vector<Candidate> distribution;
  double sum = 0;
  for (TokenId x = 0; x < 40; ++x) {
    const double log_weight = logit(truth) + error * wrong(noise);
    distribution.push_back({x, log_weight});
    sum += std::exp(log_weight);
  }
  for (Candidate& candidate : distribution) candidate.log_prob -= std::log(sum);
  return distribution;
}

struct Trial {
  double error = 0;
  TreeShape shape;
  DraftBudget budget;
  bool coupled = true;
};

// Returns the number of tokens accepted over 200 seeds at temperature 1.
int64_t TotalAccepted(const Trial& trial) {
  int64_t accepted = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<TokenId> tokens = {static_cast<TokenId>(seed % 40), 7, 1};
    const SamplingParams sampling = {.temperature = 1, .seed = seed};
    SequenceView view = {
        .tokens = tokens, .sampling = sampling, .budget = trial.budget};
    if (!trial.coupled) view.sampling = {};
    const TokenTree tree =
        BuildTree(view, trial.shape, [&](absl::Span<const TokenId> path) {
          return SyntheticDistribution(RecentTokens(tokens, path, 3),
                                       trial.error);
        });
    accepted += AcceptedLength(tree, tokens, sampling, [](const auto& context) {
      return SyntheticDistribution(context, 0);
    });
  }
  return accepted;
}

TEST(CoupledDraftingTest, APerfectDraftersChainIsAcceptedWhole) {
  const Trial chain = {.shape = {.width = 1, .noise_scale = 0.1},
                       .budget = {.max_nodes = 8, .max_depth = 8}};
  EXPECT_EQ(TotalAccepted(chain), 200 * 8);
  Trial blind = chain;
  blind.coupled = false;
  EXPECT_LT(TotalAccepted(blind), 200);
}

TEST(CoupledDraftingTest, ForeseenTreesAcceptClearlyMoreOfAnErringDrafter) {
  Trial trial = {.error = 0.5,
                 .shape = {.noise_scale = 0.5},
                 .budget = {.max_nodes = 16, .max_depth = 8}};
  const int64_t coupled = TotalAccepted(trial);
  trial.coupled = false;
  EXPECT_GT(coupled, 2 * TotalAccepted(trial));
}

// End to end through a registered drafter: table, back-off, position, noise.
TEST(CoupledDraftingTest,
     AnNgramDrafterIsAcceptedWholeByATargetWithItsDistribution) {
  std::mt19937_64 random(12);
  auto builder = NgramTableBuilder::Create(
      {.order = 2, .vocab_size = 30, .max_successors = 30});
  ASSERT_TRUE(builder.ok());
  ASSERT_TRUE(builder->Add(RandomTokens(random, 2000, 30)).ok());
  const std::string path = ::testing::TempDir() + "coupled.ngram";
  ASSERT_TRUE(WriteNgramTable(builder->Build(), path).ok());
  auto drafter = MakeDrafter("ngram", {{"table", path}, {"width", "1"}}, 30);
  auto unlimited = MakeDrafter("ngram", {{"table", path}}, 30);
  const auto target = [&](const std::vector<TokenId>& context) {
    const TokenTree tree = DraftOne(
        *unlimited,
        {.tokens = context, .budget = {.max_nodes = 30, .max_depth = 1}});
    std::vector<Candidate> distribution;
    for (const auto& [token, log_prob] : RootDistribution(tree)) {
      distribution.push_back({token, log_prob});
    }
    return distribution;
  };
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<TokenId> tokens = RandomTokens(random, 1 + seed % 5, 30);
    for (float temperature : {0.0f, 0.5f, 1.0f}) {
      const SamplingParams sampling = {.temperature = temperature,
                                       .seed = seed};
      const TokenTree tree =
          DraftOne(*drafter, {.tokens = tokens,
                              .sampling = sampling,
                              .budget = {.max_nodes = 6, .max_depth = 6}});
      EXPECT_EQ(AcceptedLength(tree, tokens, sampling, target), 6);
    }
  }
}

}  // namespace
}  // namespace espalier::drafter
