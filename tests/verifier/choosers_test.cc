#include "verifier/choosers.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

#include "common/model/logit_row.h"
#include "common/spec/gumbel_noise.h"
#include "common/spec/near_tie.h"
#include "gtest/gtest.h"
#include "tests/verifier/chi_square.h"
#include "verifier/law_transform.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Scored {
  TokenId token = -1;
  double margin = 0;
};

// The definition, without any pruning.
Scored PlainArgmax(uint64_t seed, int64_t position, const TargetLaw& law) {
  const GumbelNoise noise(seed, position);
  Scored result;
  double best = -kInf, second = -kInf;
  for (size_t i = 0; i < law.log_weights.size(); ++i) {
    const double score =
        static_cast<double>(law.log_weights[i]) + noise(law.token(i));
    if (score > best) {
      second = best;
      best = score;
      result.token = law.token(i);
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

class GumbelChooserRow : public ::testing::TestWithParam<Row> {};

TEST_P(GumbelChooserRow, EqualsTheUnprunedArgmax) {
  const TargetLaw law = {.log_weights = GetParam().log_weights};
  for (int64_t position = 0; position < 40; ++position) {
    const uint64_t seed = 1000 + position % 4;
    GumbelChooser chooser(seed);
    const Scored expected = PlainArgmax(seed, position, law);
    EXPECT_EQ(chooser.Draw(position, law), expected.token);
    EXPECT_EQ(chooser.near_ties(), expected.margin <= kNearTie ? 1 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GumbelChooserRow,
                         ::testing::ValuesIn(LargeRows()),
                         [](const auto& named) { return named.param.name; });

TEST(GumbelChooser, KeysTheNoiseByTokenIdWhateverTheIndex) {
  // The same law, once with all ids and once with the possible ones alone.
  std::vector<float> full(1000, -kInf);
  std::vector<TokenId> tokens;
  std::vector<float> weights;
  for (TokenId token = 5; token < 1000; token += 13) {
    full[token] = std::sin(static_cast<float>(token));
    tokens.push_back(token);
    weights.push_back(full[token]);
  }
  GumbelChooser chooser(9);
  for (int64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(
        chooser.Draw(position, {.log_weights = full}),
        chooser.Draw(position, {.tokens = tokens, .log_weights = weights}));
  }
}

TEST(GumbelChooser, CountsDrawsThatRoundingCouldDecide) {
  // The second weight is set to score the same as the first, give or take.
  const GumbelNoise noise(1, 10);
  const double tie = noise(0) - noise(1);
  for (const auto& [offset, ties] :
       {std::pair{5e-4, 1}, {-5e-4, 1}, {5e-3, 0}, {-5e-3, 0}}) {
    const std::vector<float> weights = {0.0f, static_cast<float>(tie + offset)};
    GumbelChooser chooser(1);
    chooser.Draw(10, {.log_weights = weights});
    EXPECT_EQ(chooser.near_ties(), ties) << offset;
  }
}

TEST(GumbelChooser, CountsTheNearTieOfAGreedyLaw) {
  const std::vector<TokenId> tokens = {4};
  const std::vector<float> weights = {0.0f};
  GumbelChooser chooser(1);
  EXPECT_EQ(chooser.Draw(0, {.tokens = tokens, .log_weights = weights}), 4);
  EXPECT_EQ(chooser.near_ties(), 0);
  EXPECT_EQ(
      chooser.Draw(
          1, {.tokens = tokens, .log_weights = weights, .near_tie = true}),
      4);
  EXPECT_EQ(chooser.near_ties(), 1);
}

// ---- The draws have the law (G-tests; seeds fixed, so no chance failure) ----

constexpr double kSignificance = 1e-6;

struct Law {
  std::vector<float> log_weights;
  std::vector<double> probabilities;
};

Law TestLaw() {
  Law law = {.log_weights = {0.3f, -1.2f, 1.7f, -kInf, 0.0f, -4.0f, 2.1f, -0.4f,
                             0.9f, -2.5f, -kInf}};
  double sum = 0;
  for (float weight : law.log_weights) {
    law.probabilities.push_back(std::exp(static_cast<double>(weight)));
    sum += law.probabilities.back();
  }
  for (double& probability : law.probabilities) probability /= sum;
  return law;
}

TEST(GumbelChooserLaw, DrawsOverSeedsFollowTheLaw) {
  const Law law = TestLaw();
  std::vector<int64_t> counts(law.probabilities.size());
  for (uint64_t seed = 0; seed < 300000; ++seed) {
    GumbelChooser chooser(seed * 0x9e3779b97f4a7c15 + 1);
    ++counts[chooser.Draw(17, {.log_weights = law.log_weights})];
  }
  EXPECT_GT(GTestPValue(counts, law.probabilities), kSignificance);
}

TEST(GumbelChooserLaw, DrawsOverPositionsFollowTheLaw) {
  const Law law = TestLaw();
  std::vector<int64_t> counts(law.probabilities.size());
  GumbelChooser chooser(2024);
  for (int64_t position = 0; position < 300000; ++position) {
    ++counts[chooser.Draw(position, {.log_weights = law.log_weights})];
  }
  EXPECT_GT(GTestPValue(counts, law.probabilities), kSignificance);
}

TEST(GumbelChooserLaw, DrawsAtNeighbouringPositionsAreIndependent) {
  const Law law = TestLaw();
  const size_t n = law.probabilities.size();
  for (int64_t distance : {1, 2, 4}) {
    std::vector<int64_t> counts(n * n);
    std::vector<double> probabilities(n * n);
    for (size_t i = 0; i < n * n; ++i) {
      probabilities[i] = law.probabilities[i / n] * law.probabilities[i % n];
    }
    for (uint64_t seed = 0; seed < 200000; ++seed) {
      GumbelChooser chooser(seed);
      const TargetLaw target = {.log_weights = law.log_weights};
      const TokenId first = chooser.Draw(100, target);
      ++counts[first * n + chooser.Draw(100 + distance, target)];
    }
    EXPECT_GT(GTestPValue(counts, probabilities), kSignificance) << distance;
  }
}

TEST(GumbelChooserLaw, DrawsOutsideFollowTheLaw) {
  const Law law = TestLaw();
  std::vector<int64_t> counts(law.probabilities.size());
  GumbelChooser chooser(2024);
  for (int64_t round = 0; round < 300000; ++round) {
    ++counts[chooser.DrawOutside(round, {.log_weights = law.log_weights})];
  }
  EXPECT_GT(GTestPValue(counts, law.probabilities), kSignificance);
}

// The noise of the walk at the same number is known to drafters, and choices
// decide where the draw is made.
TEST(GumbelChooserLaw, DrawsOutsideAreIndependentOfDrawsAndChoices) {
  const Law law = TestLaw();
  const size_t n = law.probabilities.size();
  std::vector<double> probabilities(n * n);
  for (size_t i = 0; i < n * n; ++i) {
    probabilities[i] = law.probabilities[i / n] * law.probabilities[i % n];
  }
  for (bool with_choices : {false, true}) {
    std::vector<int64_t> counts(n * n);
    for (uint64_t seed = 0; seed < 200000; ++seed) {
      GumbelChooser chooser(seed);
      const TargetLaw target = {.log_weights = law.log_weights};
      const int64_t first = with_choices
                                ? chooser.Choose(100, law.probabilities)
                                : chooser.Draw(100, target);
      ++counts[first * n + chooser.DrawOutside(100, target)];
    }
    EXPECT_GT(GTestPValue(counts, probabilities), kSignificance);
  }
}

TEST(GumbelChooserLaw, GTestNoticesADistanceOfOnePercent) {
  const Law law = TestLaw();
  std::vector<double> skewed = law.probabilities;
  skewed[0] += 0.01;
  skewed[2] -= 0.01;
  std::vector<int64_t> counts(law.probabilities.size());
  GumbelChooser chooser(2024);
  for (int64_t position = 0; position < 300000; ++position) {
    ++counts[chooser.Draw(position, {.log_weights = law.log_weights})];
  }
  EXPECT_LT(GTestPValue(counts, skewed), kSignificance);
}

// ---- Coupling: drafter and verifier meet at the same position ---------------

// A law for every context, by hash; rows of `vocab` logits.
std::vector<float> HashedLogits(const std::vector<TokenId>& text,
                                size_t vocab) {
  uint64_t seed = 77;
  for (TokenId token : text) seed = seed * 6364136223846793005 + token + 1;
  return NormalRow(vocab, 1.0f, seed);
}

class HashedLaws final : public TargetLaws {
 public:
  HashedLaws(std::vector<TokenId> committed, const TokenTree& tree,
             size_t vocab)
      : committed_(std::move(committed)), tree_(tree), vocab_(vocab) {}

  absl::StatusOr<TargetLaw> LawAt(int32_t node) override {
    std::vector<TokenId> text = committed_;
    for (int32_t step : tree_.PathTo(node)) text.push_back(tree_.tokens[step]);
    row_ = HashedLogits(text, vocab_);
    return TargetLaw{.log_weights = row_};
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

    HashedLaws laws(committed, tree, kVocab);
    GumbelChooser chooser(seed);
    const auto acceptance = NewWalkRule()->Accept(
        tree, /*first_position=*/committed.size(), laws, chooser);
    ASSERT_TRUE(acceptance.ok());
    EXPECT_EQ(static_cast<int64_t>(acceptance->path.size()), kDepth);
  }
}

// A pass that draws for itself must say what the law and its chooser would
// have said, or turning it on would change texts.
TEST(GumbelChooserTest, DrawOfAPassIsTheDrawFromTheLaw) {
  LawTransform transform;
  int near_ties = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::vector<float> logits =
        NormalRow(2000, seed % 4 == 0 ? 1e-3f : 3.0f, seed);
    for (float temperature : {0.0f, 0.01f, 0.6f, 1.0f, 100.0f}) {
      const int64_t position = static_cast<int64_t>(seed % 7);
      const auto law =
          transform.Apply(logits, {.temperature = temperature, .seed = seed});
      GumbelChooser chooser(seed);
      const TokenId token = chooser.Draw(position, *law);
      const auto drawn = DrawFrom(
          logits, {.temperature = temperature, .seed = seed}, position);
      ASSERT_EQ(drawn->token, token) << seed << " at " << temperature;
      ASSERT_EQ(drawn->near_tie, chooser.near_ties() == 1);
      near_ties += chooser.near_ties();
    }
  }
  EXPECT_GT(near_ties, 10);
}

}  // namespace
}  // namespace espalier::verifier
