#include "verifier/rules/token_samplers.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

#include "common/model/logits/logit_row.h"
#include "common/speculation/gumbel_noise.h"
#include "common/speculation/near_tie.h"
#include "gtest/gtest.h"
#include "tests/verifier/chi_square.h"
#include "verifier/distributions/distribution_transform.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Scored {
  TokenId token = -1;
  double margin = 0;
};

// Computes the definition, without any pruning.
Scored PlainArgmax(uint64_t seed, int64_t position,
                   const TargetDistribution& distribution) {
  const GumbelNoise noise(seed, position);
  Scored result;
  double best = -kInf, second = -kInf;
  for (size_t i = 0; i < distribution.log_weights.size(); ++i) {
    const double score = static_cast<double>(distribution.log_weights[i]) +
                         noise(distribution.token(i));
    if (score > best) {
      second = best;
      best = score;
      result.token = distribution.token(i);
    } else {
      second = std::max(second, score);
    }
  }
  result.margin = best - second;
  return result;
}

std::vector<float> NormalRow(size_t n, float deviation, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> logit(0.0f, deviation);
  std::vector<float> row(n);
  for (float& weight : row) weight = logit(random);
  return row;
}

struct Row {
  const char* name;
  std::vector<float> log_weights;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> LargeRows() {
  constexpr size_t kVocab = 50000;
  std::vector<Row> rows = {{"Flat", std::vector<float>(kVocab, -3.0f)},
                           {"Narrow", NormalRow(kVocab, 0.1f, 1)},
                           {"Typical", NormalRow(kVocab, 2.5f, 2)},
                           {"Cold", NormalRow(kVocab, 300.0f, 3)},
                           {"Peaked", NormalRow(kVocab, 1.0f, 4)},
                           {"Holes", NormalRow(kVocab, 1.0f, 5)},
                           {"OneLeft", std::vector<float>(kVocab, -kInf)}};
  rows[4].log_weights[31234] = 25.0f;
  for (size_t i = 0; i < kVocab; ++i) {
    if (i % 7 != 3) rows[5].log_weights[i] = -kInf;
  }
  rows[6].log_weights[49999] = -5.0f;
  return rows;
}

class GumbelSamplerRow : public ::testing::TestWithParam<Row> {};

TEST_P(GumbelSamplerRow, EqualsTheUnprunedArgmax) {
  const TargetDistribution distribution = {.log_weights =
                                               GetParam().log_weights};
  for (int64_t position = 0; position < 40; ++position) {
    const uint64_t seed = 1000 + position % 4;
    GumbelSampler sampler(seed);
    const Scored expected = PlainArgmax(seed, position, distribution);
    EXPECT_EQ(sampler.SampleToken(position, distribution), expected.token);
    EXPECT_EQ(sampler.near_ties(), expected.margin <= kNearTie ? 1 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GumbelSamplerRow,
                         ::testing::ValuesIn(LargeRows()),
                         [](const auto& named) { return named.param.name; });

TEST(GumbelSampler, KeysTheNoiseByTokenIdWhateverTheIndex) {
  // This is the same distribution, once with all ids and once with the possible
  // ones alone.
  std::vector<float> full(1000, -kInf);
  std::vector<TokenId> tokens;
  std::vector<float> weights;
  for (TokenId token = 5; token < 1000; token += 13) {
    full[token] = std::sin(static_cast<float>(token));
    tokens.push_back(token);
    weights.push_back(full[token]);
  }
  GumbelSampler sampler(9);
  for (int64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(sampler.SampleToken(position, {.log_weights = full}),
              sampler.SampleToken(position,
                                  {.tokens = tokens, .log_weights = weights}));
  }
}

TEST(GumbelSampler, CountsDrawsThatRoundingCouldDecide) {
  // The second weight is set to score the same as the first, give or take.
  const GumbelNoise noise(1, 10);
  const double tie = noise(0) - noise(1);
  for (const auto& [offset, ties] :
       {std::pair{5e-4, 1}, {-5e-4, 1}, {5e-3, 0}, {-5e-3, 0}}) {
    const std::vector<float> weights = {0.0f, static_cast<float>(tie + offset)};
    GumbelSampler sampler(1);
    sampler.SampleToken(10, {.log_weights = weights});
    EXPECT_EQ(sampler.near_ties(), ties) << offset;
  }
}

TEST(GumbelSampler, CountsTheNearTieOfAGreedyDistribution) {
  const std::vector<TokenId> tokens = {4};
  const std::vector<float> weights = {0.0f};
  GumbelSampler sampler(1);
  EXPECT_EQ(sampler.SampleToken(0, {.tokens = tokens, .log_weights = weights}),
            4);
  EXPECT_EQ(sampler.near_ties(), 0);
  EXPECT_EQ(
      sampler.SampleToken(
          1, {.tokens = tokens, .log_weights = weights, .near_tie = true}),
      4);
  EXPECT_EQ(sampler.near_ties(), 1);
}

// ---- The draws have the distribution (G-tests; seeds fixed, so no chance
// failure) ----

constexpr double kSignificance = 1e-6;

struct Distribution {
  std::vector<float> log_weights;
  std::vector<double> probabilities;
};

Distribution TestDistribution() {
  Distribution distribution = {.log_weights = {0.3f, -1.2f, 1.7f, -kInf, 0.0f,
                                               -4.0f, 2.1f, -0.4f, 0.9f, -2.5f,
                                               -kInf}};
  double sum = 0;
  for (float weight : distribution.log_weights) {
    distribution.probabilities.push_back(std::exp(static_cast<double>(weight)));
    sum += distribution.probabilities.back();
  }
  for (double& probability : distribution.probabilities) probability /= sum;
  return distribution;
}

TEST(GumbelSamplerDistribution, DrawsOverSeedsFollowTheDistribution) {
  const Distribution distribution = TestDistribution();
  std::vector<int64_t> counts(distribution.probabilities.size());
  for (uint64_t seed = 0; seed < 300000; ++seed) {
    GumbelSampler sampler(seed * 0x9e3779b97f4a7c15 + 1);
    ++counts[sampler.SampleToken(17,
                                 {.log_weights = distribution.log_weights})];
  }
  EXPECT_GT(GTestPValue(counts, distribution.probabilities), kSignificance);
}

TEST(GumbelSamplerDistribution, DrawsOverPositionsFollowTheDistribution) {
  const Distribution distribution = TestDistribution();
  std::vector<int64_t> counts(distribution.probabilities.size());
  GumbelSampler sampler(2024);
  for (int64_t position = 0; position < 300000; ++position) {
    ++counts[sampler.SampleToken(position,
                                 {.log_weights = distribution.log_weights})];
  }
  EXPECT_GT(GTestPValue(counts, distribution.probabilities), kSignificance);
}

TEST(GumbelSamplerDistribution, DrawsAtNeighbouringPositionsAreIndependent) {
  const Distribution distribution = TestDistribution();
  const size_t n = distribution.probabilities.size();
  for (int64_t distance : {1, 2, 4}) {
    std::vector<int64_t> counts(n * n);
    std::vector<double> probabilities(n * n);
    for (size_t i = 0; i < n * n; ++i) {
      probabilities[i] =
          distribution.probabilities[i / n] * distribution.probabilities[i % n];
    }
    for (uint64_t seed = 0; seed < 200000; ++seed) {
      GumbelSampler sampler(seed);
      const TargetDistribution target = {.log_weights =
                                             distribution.log_weights};
      const TokenId first = sampler.SampleToken(100, target);
      ++counts[first * n + sampler.SampleToken(100 + distance, target)];
    }
    EXPECT_GT(GTestPValue(counts, probabilities), kSignificance) << distance;
  }
}

TEST(GumbelSamplerDistribution, DrawsOutsideFollowTheDistribution) {
  const Distribution distribution = TestDistribution();
  std::vector<int64_t> counts(distribution.probabilities.size());
  GumbelSampler sampler(2024);
  for (int64_t round = 0; round < 300000; ++round) {
    ++counts[sampler.SampleOutside(round,
                                   {.log_weights = distribution.log_weights})];
  }
  EXPECT_GT(GTestPValue(counts, distribution.probabilities), kSignificance);
}

// Drafters know the walk's noise at the same counter, and SampleIndex decides
// where SampleOutside is called.
TEST(GumbelSamplerDistribution, DrawsOutsideAreIndependentOfDrawsAndChoices) {
  const Distribution distribution = TestDistribution();
  const size_t n = distribution.probabilities.size();
  std::vector<double> probabilities(n * n);
  for (size_t i = 0; i < n * n; ++i) {
    probabilities[i] =
        distribution.probabilities[i / n] * distribution.probabilities[i % n];
  }
  for (bool with_choices : {false, true}) {
    std::vector<int64_t> counts(n * n);
    for (uint64_t seed = 0; seed < 200000; ++seed) {
      GumbelSampler sampler(seed);
      const TargetDistribution target = {.log_weights =
                                             distribution.log_weights};
      const int64_t first =
          with_choices ? sampler.SampleIndex(100, distribution.probabilities)
                       : sampler.SampleToken(100, target);
      ++counts[first * n + sampler.SampleOutside(100, target)];
    }
    EXPECT_GT(GTestPValue(counts, probabilities), kSignificance);
  }
}

TEST(GumbelSamplerDistribution, GTestNoticesADistanceOfOnePercent) {
  const Distribution distribution = TestDistribution();
  std::vector<double> skewed = distribution.probabilities;
  skewed[0] += 0.01;
  skewed[2] -= 0.01;
  std::vector<int64_t> counts(distribution.probabilities.size());
  GumbelSampler sampler(2024);
  for (int64_t position = 0; position < 300000; ++position) {
    ++counts[sampler.SampleToken(position,
                                 {.log_weights = distribution.log_weights})];
  }
  EXPECT_LT(GTestPValue(counts, skewed), kSignificance);
}

// ---- Coupling: drafter and verifier meet at the same position ---------------

// Returns a distribution for every context, by hash; rows of `vocab` logits.
std::vector<float> HashedLogits(const std::vector<TokenId>& text,
                                size_t vocab) {
  uint64_t seed = 77;
  for (TokenId token : text) seed = seed * 6364136223846793005 + token + 1;
  return NormalRow(vocab, 1.0f, seed);
}

class HashedDistributions final : public TargetDistributions {
 public:
  HashedDistributions(std::vector<TokenId> committed, const TokenTree& tree,
                      size_t vocab)
      : committed_(std::move(committed)), tree_(tree), vocab_(vocab) {}

  absl::StatusOr<TargetDistribution> DistributionAt(int32_t node) override {
    std::vector<TokenId> text = committed_;
    for (int32_t step : tree_.PathTo(node)) text.push_back(tree_.tokens[step]);
    row_ = HashedLogits(text, vocab_);
    return TargetDistribution{.log_weights = row_};
  }

 private:
  std::vector<TokenId> committed_;
  const TokenTree& tree_;
  size_t vocab_;
  std::vector<float> row_;
};

TEST(Coupling, ChainOfAPerfectDrafterIsAcceptedWhole) {
  constexpr size_t kVocab = 300;
  constexpr int64_t kDepth = 12;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<TokenId> committed = {3, 1, 4, 1, 5};
    // The drafter: best token by log p + g, position after position, p = q.
    TokenTree tree = TokenTree::RootOnly(committed.back());
    std::vector<TokenId> text = committed;
    for (int32_t node = 0; node < kDepth; ++node) {
      const std::vector<float> row = HashedLogits(text, kVocab);
      const int64_t position = static_cast<int64_t>(text.size());
      text.push_back(PlainArgmax(seed, position, {.log_weights = row}).token);
      tree.Add(node, text.back(), 0.0f);
    }

    HashedDistributions distributions(committed, tree, kVocab);
    GumbelSampler sampler(seed);
    const auto acceptance = NewWalkRule()->Accept(
        tree, /*first_position=*/committed.size(), distributions, sampler);
    ASSERT_TRUE(acceptance.ok());
    EXPECT_EQ(static_cast<int64_t>(acceptance->path.size()), kDepth);
  }
}

// A pass that samples itself must give the same token as the distribution with
// its sampler, or enabling it would change texts.
TEST(GumbelSamplerTest, DrawOfAPassIsTheDrawFromTheDistribution) {
  DistributionTransform transform;
  int near_ties = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::vector<float> logits =
        NormalRow(2000, seed % 4 == 0 ? 1e-3f : 3.0f, seed);
    for (float temperature : {0.0f, 0.01f, 0.6f, 1.0f, 100.0f}) {
      const int64_t position = static_cast<int64_t>(seed % 7);
      const auto distribution =
          transform.Apply(logits, {.temperature = temperature, .seed = seed});
      GumbelSampler sampler(seed);
      const TokenId token = sampler.SampleToken(position, *distribution);
      const auto sampled = DrawFrom(
          logits, {.temperature = temperature, .seed = seed}, position);
      ASSERT_EQ(sampled->token, token) << seed << " at " << temperature;
      ASSERT_EQ(sampled->near_tie, sampler.near_ties() == 1);
      near_ties += sampler.near_ties();
    }
  }
  EXPECT_GT(near_ties, 10);
}

}  // namespace
}  // namespace espalier::verifier
