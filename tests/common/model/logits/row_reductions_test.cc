// The reductions equal the answers from whole rows, for any order of the
// chunks, any threads and any other rows.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/model/logits/dense_rows.h"
#include "common/model/logits/gathered_rows.h"
#include "common/model/logits/ranked_rows.h"
#include "common/model/logits/sampled_rows.h"
#include "common/speculation/gumbel_noise.h"
#include "gtest/gtest.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kHuge = std::numeric_limits<float>::max();
constexpr int64_t kThreads = 3;

using Rows = std::vector<std::vector<float>>;

class RowReductionsTest : public nn::KernelTest {
 protected:
  std::vector<float> NormalRow(int64_t vocab, float deviation) {
    std::normal_distribution<float> logit(0.0f, deviation);
    std::vector<float> row(vocab);
    for (float& value : row) value = logit(random_);
    return row;
  }

  // All chunks of the rows, shuffled, each on a random thread.
  void Feed(const Rows& rows, RowReduction& reduction) {
    const int64_t vocab = static_cast<int64_t>(rows[0].size());
    std::vector<int64_t> order(nn::ProductChunkCount(vocab));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (int64_t index : order) {
      nn::ProductChunk chunk = {
          .index = index,
          .thread = static_cast<int64_t>(random_() % kThreads),
          .columns =
              std::min(nn::kChunkColumns, vocab - index * nn::kChunkColumns),
          .stride = nn::kChunkColumns};
      std::vector<float> logits(rows.size() * chunk.stride, kInf);
      for (size_t row = 0; row < rows.size(); ++row) {
        std::copy_n(&rows[row][chunk.first_column()], chunk.columns,
                    &logits[row * chunk.stride]);
      }
      chunk.rows = logits.data();
      reduction.Take(chunk);
    }
  }

  // Supports that gathering might get wrong, among them all and nothing.
  RowSupports NastySupports(int64_t rows, int64_t vocab) {
    RowSupports supports;
    std::vector<TokenId> all(vocab);
    std::iota(all.begin(), all.end(), 0);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<TokenId> some = all;
      switch (random_() % 6) {
        case 0:
          some.clear();
          break;
        case 1:  // first and last
          some = {0};
          if (vocab > 1) some.push_back(static_cast<TokenId>(vocab - 1));
          break;
        case 2:  // all
          break;
        case 3:  // all but one
          some.erase(some.begin() + random_() % vocab);
          break;
        case 4:  // one whole chunk, or what there is of it
          some.resize(std::min(vocab, nn::kChunkColumns));
          break;
        default:
          std::erase_if(some, [this](TokenId) { return random_() % 20 != 0; });
      }
      supports.Add(some);
    }
    return supports;
  }

  // Returns rows that reductions might get wrong.
  std::map<std::string, Rows> NastyRows() {
    std::map<std::string, Rows> all;
    for (int64_t vocab : {1, 3, 32, 33, 256, 257, 1000, 4096}) {
      const std::string size = " of " + std::to_string(vocab);
      auto add = [&](const std::string& name,
                     const std::function<float(int64_t)>& logit) {
        std::vector<float> row(vocab);
        for (int64_t i = 0; i < vocab; ++i) row[i] = logit(i);
        all[name + size].push_back(row);
      };
      for (float deviation : {1e-4f, 0.5f, 4.0f, 30.0f, 1e20f}) {
        for (int i = 0; i < 8; ++i) {
          all["normal " + std::to_string(deviation) + size].push_back(
              NormalRow(vocab, deviation));
        }
      }
      add("zero", [](int64_t) { return 0.0f; });
      add("equal", [](int64_t) { return -17.25f; });
      add("huge", [](int64_t) { return kHuge; });
      add("lowest", [](int64_t) { return -kHuge; });
      add("huge or lowest",
          [](int64_t i) { return i % 5 == 3 ? kHuge : -kHuge; });
      add("large and equal", [](int64_t) { return 1e20f; });
      add("large steps", [](int64_t i) { return 1e9f + 64.0f * (i % 7); });
      add("ascending", [](int64_t i) { return 0.01f * i; });
      add("descending", [](int64_t i) { return -0.01f * i; });
      add("near ties", [](int64_t i) { return 5 + 0.0005f * (i % 3); });
      add("at the border of near",
          [](int64_t i) { return i == 0 ? 8.0f : 7.999f; });
      add("one peak", [vocab](int64_t i) { return i == vocab / 2 ? 60 : 0; });
      add("denormal", [](int64_t i) { return 1e-42f * (i % 9); });
    }
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, RowReductionsTest,
                         ::testing::ValuesIn(nn::UsableBackends()),
                         nn::BackendName);

TEST_P(RowReductionsTest, DrawIsThatFromTheWholeRow) {
  int near_ties = 0, draws = 0;
  for (const auto& [name, rows] : NastyRows()) {
    for (float temperature : {0.0f, 0.01f, 0.3f, 1.0f, 100.0f}) {
      const DrawRequest request = {.temperature = temperature,
                                   .seed = random_()};
      std::vector<int64_t> positions;
      for (size_t i = 0; i < rows.size(); ++i) {
        positions.push_back(1000 - static_cast<int64_t>(i * i % 5));
      }
      SampledRows sampled(request, positions, kernels(), kThreads);
      Feed(rows, sampled);
      for (size_t i = 0; i < rows.size(); ++i) {
        const SampledToken expected = *DrawFrom(rows[i], request, positions[i]);
        ASSERT_EQ(*sampled.Draw(i), expected)
            << name << " at temperature " << temperature;
        near_ties += expected.near_tie;
        ++draws;
      }
    }
  }
  EXPECT_GT(near_ties, draws / 50);
  EXPECT_LT(near_ties, draws / 2);
}

// Many tokens have close scores, so that what decides is the last bits of the
// weights.
TEST_P(RowReductionsTest, DrawAgreesOnScoresThatDifferByRounding) {
  for (int round = 0; round < 200; ++round) {
    const DrawRequest request = {.temperature = 0.01f + 0.01f * round,
                                 .seed = random_()};
    const GumbelNoise noise(request.seed, /*position=*/9);
    std::vector<float> row(300);
    std::uniform_real_distribution<double> jitter(-3e-6, 3e-6);
    for (TokenId i = 0; i < 300; ++i) {
      row[i] = static_cast<float>(request.temperature *
                                  (jitter(random_) - noise(i)));
    }
    SampledRows sampled(request, {9}, kernels(), kThreads);
    Feed({row}, sampled);
    const SampledToken expected = *DrawFrom(row, request, 9);
    ASSERT_TRUE(expected.near_tie);
    ASSERT_EQ(*sampled.Draw(0), expected) << request.temperature;
  }
}

TEST_P(RowReductionsTest, DrawSeesNearTiesBetweenHugeLogits) {
  const std::vector<float> row(64, 3e13f);
  int near_ties = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const DrawRequest request = {.temperature = 1, .seed = seed};
    SampledRows sampled(request, {1}, kernels(), kThreads);
    Feed({row}, sampled);
    const SampledToken expected = *DrawFrom(row, request, 1);
    ASSERT_EQ(*sampled.Draw(0), expected);
    near_ties += expected.near_tie;
  }
  EXPECT_GT(near_ties, 5);
}

TEST_P(RowReductionsTest, RankingIsThatOfTheWholeRow) {
  for (const auto& [name, rows] : NastyRows()) {
    for (int32_t top_k : {0, 1, 2, 64, 5000}) {
      const RankRequest request = {.top_k = top_k};
      RankedRows ranked(request, rows.size(), rows[0].size(), kernels(),
                        kThreads);
      Feed(rows, ranked);
      for (size_t i = 0; i < rows.size(); ++i) {
        const Ranking expected = *RankFrom(rows[i], request);
        const Ranking got = *ranked.Rank(i);
        ASSERT_EQ(got.top, expected.top) << name << ", top " << top_k;
        ASSERT_NEAR(got.log_sum_exp, expected.log_sum_exp,
                    2e-6 + 1e-7 * std::abs(expected.log_sum_exp))
            << name;
      }
    }
  }
}

// Bit for bit: alone or beside others, in any order, on any threads.
TEST_P(RowReductionsTest, MassDoesNotDependOnCompanyOrOrder) {
  Rows rows;
  for (int i = 0; i < 7; ++i) rows.push_back(NormalRow(3000, 3));
  for (size_t row = 0; row < rows.size(); ++row) {
    RankedRows alone({}, 1, 3000, kernels(), kThreads);
    Feed({rows[row]}, alone);
    RankedRows together({}, rows.size(), 3000, kernels(), kThreads);
    Feed(rows, together);
    EXPECT_EQ(alone.Rank(0)->log_sum_exp, together.Rank(row)->log_sum_exp);
  }
}

// In float64.
double WeightOutside(const std::vector<float>& row,
                     const GatherRequest& request, int64_t index) {
  const float largest = *std::max_element(row.begin(), row.end());
  const auto support = request.supports->Of(index);
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (std::binary_search(support.begin(), support.end(), token)) continue;
    sum += std::exp((double{row[i]} - largest) / request.temperature);
  }
  return sum;
}

TEST_P(RowReductionsTest, GatheredIsWhatTheWholeRowHas) {
  int draws = 0;
  for (const auto& [name, rows] : NastyRows()) {
    const auto vocab = static_cast<int64_t>(rows[0].size());
    for (float temperature : {0.01f, 0.3f, 1.0f, 100.0f}) {
      const GatherRequest request = {
          .temperature = temperature,
          .seed = random_(),
          .round = 1000,
          .supports = std::make_shared<RowSupports>(
              NastySupports(std::ssize(rows), vocab))};
      GatheredRows gathered(request, vocab, kernels(), kThreads);
      Feed(rows, gathered);
      for (int64_t i = 0; i < std::ssize(rows); ++i) {
        const GatheredRow got = *gathered.Gather(i);
        const GatheredRow expected = *GatherFrom(rows[i], request, i);
        ASSERT_EQ(got.log_weights, expected.log_weights) << name;
        const double outside = WeightOutside(rows[i], request, i);
        ASSERT_NEAR(got.outside, outside, 5e-6 * outside + 1e-300)
            << name << " at temperature " << temperature;
        if (got.outside < 1e-300) continue;
        const SampledToken sampled = *SampleOutsideFrom(rows[i], request, i);
        ASSERT_EQ(*gathered.SampleOutside(i), sampled)
            << name << " at temperature " << temperature;
        ++draws;
      }
    }
  }
  EXPECT_GT(draws, 1000);
}

// Far below the likeliest token, which is not outside, weights have few digits.
TEST_P(RowReductionsTest, SampleOutsideAgreesOnScoresThatDifferByRounding) {
  RowSupports supports;
  supports.Add({7});
  for (int round = 0; round < 200; ++round) {
    const GatherRequest request = {
        .temperature = 0.01f + 0.01f * round,
        .seed = random_(),
        .round = 9,
        .supports = std::make_shared<RowSupports>(supports)};
    const GumbelNoise noise(request.seed, 9, NoisePurpose::kOutside);
    std::vector<float> row(300);
    std::uniform_real_distribution<double> jitter(-1e-4, 1e-4);
    for (TokenId i = 0; i < 300; ++i) {
      row[i] = static_cast<float>(request.temperature *
                                  (jitter(random_) - noise(i)));
    }
    row[7] = 730 * request.temperature;
    GatheredRows gathered(request, 300, kernels(), kThreads);
    Feed({row}, gathered);
    ASSERT_GT(gathered.Gather(0)->outside, 0);
    const SampledToken expected = *SampleOutsideFrom(row, request, 0);
    ASSERT_TRUE(expected.near_tie);
    ASSERT_EQ(*gathered.SampleOutside(0), expected) << request.temperature;
  }
}

TEST_P(RowReductionsTest, NothingOutsideWeighsNothingToTheLastBit) {
  std::vector<TokenId> all(700);
  std::iota(all.begin(), all.end(), 0);
  RowSupports supports;
  supports.Add(all);
  const GatherRequest request = {.supports =
                                     std::make_shared<RowSupports>(supports)};
  GatheredRows gathered(request, 700, kernels(), kThreads);
  Feed({NormalRow(700, 3)}, gathered);
  EXPECT_EQ(gathered.Gather(0)->outside, 0);
}

TEST_P(RowReductionsTest, GatheredDoesNotDependOnCompanyOrOrder) {
  Rows rows;
  for (int i = 0; i < 7; ++i) rows.push_back(NormalRow(3000, 3));
  const RowSupports supports = NastySupports(7, 3000);
  GatherRequest request = {.temperature = 0.7f,
                           .seed = 3,
                           .round = 9,
                           .supports = std::make_shared<RowSupports>(supports)};
  GatheredRows together(request, 3000, kernels(), kThreads);
  Feed(rows, together);
  for (int64_t row = 0; row < 7; ++row) {
    RowSupports own;
    own.Add(supports.Of(row));
    request.supports = std::make_shared<RowSupports>(own);
    GatheredRows alone(request, 3000, kernels(), kThreads);
    Feed({rows[row]}, alone);
    EXPECT_EQ(alone.Gather(0)->outside, together.Gather(row)->outside);
    EXPECT_EQ(alone.Gather(0)->log_weights, together.Gather(row)->log_weights);
  }
}

TEST_P(RowReductionsTest, FirstLogitThatIsNotFiniteIsNamedForItsRowOnly) {
  for (float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    Rows rows;
    for (int i = 0; i < 3; ++i) rows.push_back(NormalRow(2000, 3));
    const Rows clean = rows;
    for (int64_t token : {1999, 700, 640, 1300}) rows[1][token] = bad;
    const DrawRequest draw = {.temperature = 1, .seed = 4};
    const RankRequest rank = {.top_k = 4};
    SampledRows sampled(draw, {5, 5, 6}, kernels(), kThreads);
    RankedRows ranked(rank, 3, 2000, kernels(), kThreads);
    RowSupports supports;
    for (int i = 0; i < 3; ++i) supports.Add({1, 640, 1999});
    const GatherRequest gather = {.supports =
                                      std::make_shared<RowSupports>(supports)};
    GatheredRows gathered(gather, 2000, kernels(), kThreads);
    Feed(rows, sampled);
    Feed(rows, ranked);
    Feed(rows, gathered);
    EXPECT_EQ(gathered.Gather(1).status(), CheckFinite(rows[1]));
    EXPECT_EQ(gathered.SampleOutside(1).status(), CheckFinite(rows[1]));
    EXPECT_EQ(sampled.Draw(1).status(), CheckFinite(rows[1]));
    EXPECT_EQ(ranked.Rank(1).status(), CheckFinite(rows[1]));
    for (int64_t row : {0, 2}) {
      EXPECT_EQ(*sampled.Draw(row), *DrawFrom(clean[row], draw, 5 + row / 2));
      EXPECT_EQ(ranked.Rank(row)->top, RankFrom(clean[row], rank)->top);
      EXPECT_EQ(gathered.Gather(row)->log_weights,
                GatherFrom(clean[row], gather, row)->log_weights);
    }
  }
}

TEST_P(RowReductionsTest, DenseRowsAreTheRows) {
  const Rows rows = {NormalRow(777, 1), NormalRow(777, 1)};
  DenseRows dense(2, 777);
  Feed(rows, dense);
  for (int64_t row : {0, 1}) {
    EXPECT_EQ(std::vector<float>(dense.Row(row).begin(), dense.Row(row).end()),
              rows[row]);
  }
}

}  // namespace
}  // namespace espalier
