// Draws, ranks and gathers against the same from whole rows on the host.
#include <algorithm>
#include <limits>
#include <vector>

#include "tests/common/cuda/logits_testing.h"

namespace espalier::cuda {
namespace {

class CudaLogitsTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(CudaLogitsTest);

TEST_P(CudaLogitsTest, DrawsAsFromWholeRows) {
  for (int vocab : {64, 2048, 5000}) {
    for (float temperature : {0.0f, 0.3f, 1.0f, 2.0f}) {
      const Logits logits = RandomLogits(12, vocab, 3, vocab);
      std::vector<DrawRow> rows;
      for (int i = 0; i < 12; ++i) rows.push_back(RowFor(temperature, i));
      const std::vector<DrawResult> results = Draw(Device(), logits, rows);
      for (int i = 0; i < 12; ++i) {
        EXPECT_EQ(results[i].bad_token, -1);
        EXPECT_EQ(results[i].largest, *std::max_element(logits.rows[i].begin(),
                                                        logits.rows[i].end()));
        EXPECT_EQ(FromContenders(results[i], rows[i]),
                  FromRow(logits.rows[i], rows[i]));
      }
    }
  }
}

TEST(NoiseFromBitsTest, IsThatOfTheHost) {
  for (int shift = 0; shift < 32; ++shift) {
    for (uint32_t bits : {1u << shift, (1u << shift) - 1, ~(1u << shift),
                          ~((1u << shift) - 1), 0x9e3779b9u << shift}) {
      EXPECT_NEAR(NoiseFromBits(bits), GumbelNoise::FromBits(bits), 1e-5)
          << bits;
    }
  }
}

// Two tokens whose scores are closer than float32 sees: both contend.
TEST_P(CudaLogitsTest, NearTiesContend) {
  Logits logits = RandomLogits(40, 2100, 1, 5);
  std::vector<DrawRow> rows;
  for (int i = 0; i < 40; ++i) {
    rows.push_back(RowFor(1, i));
    const GumbelNoise noise(7, i);
    const int winner = FromRow(logits.rows[i], rows[i]).token;
    const int other = (winner + 1031) % 2100;
    logits.rows[i][other] =
        static_cast<float>(logits.rows[i][winner] + noise(winner) -
                           noise(other) + (i - 20) * 5e-5);
  }
  const std::vector<DrawResult> results = Draw(Device(), logits, rows);
  int near = 0;
  for (int i = 0; i < 40; ++i) {
    const Drawn drawn = FromRow(logits.rows[i], rows[i]);
    EXPECT_EQ(FromContenders(results[i], rows[i]), drawn);
    near += drawn.near_tie;
  }
  EXPECT_GT(near, 30);
}

TEST_P(CudaLogitsTest, DrawsOutsideOfASupport) {
  const Logits logits = RandomLogits(3, 2500, 4, 6);
  std::vector<int32_t> without;
  std::vector<DrawRow> rows;
  std::vector<std::vector<int32_t>> excluded(3);
  for (int i = 0; i < 3; ++i) {
    std::vector<int> order = ByRank(logits.rows[i]);
    excluded[i].assign(order.begin(), order.begin() + 20 * i);
    std::sort(excluded[i].begin(), excluded[i].end());
    rows.push_back(RowFor(1, 100 + i));
    rows[i].purpose = static_cast<uint32_t>(NoisePurpose::kOutside);
    rows[i].without_begin = static_cast<int>(without.size());
    without.insert(without.end(), excluded[i].begin(), excluded[i].end());
    rows[i].without_end = static_cast<int>(without.size());
  }
  const std::vector<DrawResult> results = Draw(Device(), logits, rows, without);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(FromContenders(results[i], rows[i]),
              FromRow(logits.rows[i], rows[i], excluded[i]));
  }
}

TEST_P(CudaLogitsTest, TooManyContendersAreCounted) {
  Logits logits = {.vocab = 4096};
  logits.rows.assign(3, std::vector<float>(4096, 0.0f));
  for (int i = 0; i < 4096; ++i) {
    logits.rows[0][i] = i % 300 == 0 ? 5.0f : 0.0f;  // 14 of them
    logits.rows[1][i] = i % 200 == 0 ? 5.0f : 0.0f;  // 21, in two chunks
    logits.rows[2][i] = i % 100 == 0 && i < 2000 ? 5.0f : 0.0f;  // 20 in one
  }
  const std::vector<DrawResult> results =
      Draw(Device(), logits, {RowFor(0, 0), RowFor(0, 1), RowFor(0, 2)});
  EXPECT_EQ(results[0].contenders, 14);
  EXPECT_EQ(results[0].contender[13].token, 3900);
  EXPECT_GT(results[1].contenders, kMaxContenders);
  EXPECT_GT(results[2].contenders, kMaxContenders);
}

TEST_P(CudaLogitsTest, NamesTheFirstBadToken) {
  Logits logits = RandomLogits(4, 5000, 1, 8);
  logits.rows[1][4321] = std::numeric_limits<float>::quiet_NaN();
  logits.rows[1][4999] = std::numeric_limits<float>::infinity();
  logits.rows[2][0] = -std::numeric_limits<float>::infinity();
  ComputeDevice& device = Device();
  const std::vector<DrawResult> drawn = Draw(device, logits, {4, RowFor(1, 0)});
  const auto values = ArrayOf(device, logits.Padded());
  const auto ranked = NanArray<RankResult>(device, 4);
  const auto top = NanArray<LogitOfToken>(device, 4 * 3);
  const auto rows = ArrayOf(device, std::vector<GatherRow>(4));
  const auto gathered = NanArray<GatherResult>(device, 4);
  const auto parts = NanArray<RankPart>(device, 4 * kMaxRankParts);
  device.Launch(RankArgs{.logits = logits.Block(values),
                         .top_k = 3,
                         .parts = parts.data(),
                         .results = ranked.data(),
                         .top = top.data()});
  device.Launch(GatherArgs{.logits = logits.Block(values),
                           .rows = rows.data(),
                           .results = gathered.data()});
  const std::vector<RankResult> ranks = ValuesOf(device, ranked);
  const std::vector<GatherResult> gathers = ValuesOf(device, gathered);
  const int bad[] = {-1, 4321, 0, -1};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(drawn[i].bad_token, bad[i]);
    EXPECT_EQ(ranks[i].bad_token, bad[i]);
    EXPECT_EQ(gathers[i].bad_token, bad[i]);
  }
}

TEST_P(CudaLogitsTest, RanksAsSortedRows) {
  for (const Logits& logits :
       {RandomLogits(3, 3000, 3, 13), HardLogits(1030)}) {
    for (int top_k : {0, 1, 20, kMaxRanked}) {
      ComputeDevice& device = Device();
      const auto values = ArrayOf(device, logits.Padded());
      const auto results = NanArray<RankResult>(device, logits.count());
      const auto top = NanArray<LogitOfToken>(device, logits.count() * top_k);
      const auto parts =
          NanArray<RankPart>(device, logits.count() * kMaxRankParts);
      // Answers of an earlier rank in the same place do not count.
      for (int time = 0; time < 2; ++time) {
        device.Launch(RankArgs{.logits = logits.Block(values),
                               .top_k = top_k,
                               .parts = parts.data(),
                               .results = results.data(),
                               .top = top.data()});
      }
      const std::vector<RankResult> got = ValuesOf(device, results);
      const std::vector<LogitOfToken> tokens = ValuesOf(device, top);
      for (int i = 0; i < logits.count(); ++i) {
        const std::vector<int> order = ByRank(logits.rows[i]);
        for (int k = 0; k < top_k; ++k) {
          ASSERT_EQ(tokens[i * top_k + k].token, order[k]) << i;
          ASSERT_EQ(tokens[i * top_k + k].logit, logits.rows[i][order[k]]);
        }
        double sum = 0;
        for (float x : logits.rows[i]) {
          sum += std::exp(double{x} - logits.rows[i][order[0]]);
        }
        EXPECT_EQ(got[i].largest, logits.rows[i][order[0]]);
        EXPECT_NEAR(static_cast<double>(got[i].mass) * kMassUnit, sum,
                    sum * 1e-6);
      }
    }
  }
}

TEST_P(CudaLogitsTest, GathersASupportAndTheMassOutside) {
  Logits logits = RandomLogits(4, 3000, 3, 14);
  logits.rows[3].assign(3000, -1000);  // nearly all within the support
  logits.rows[3][17] = 5;
  std::vector<std::vector<int32_t>> supports = {{}, {0, 5, 2999}, {1}, {17}};
  for (int i = 100; i < 160; ++i) supports[2].push_back(i);
  std::vector<int32_t> support;
  std::vector<GatherRow> rows;
  for (const auto& tokens : supports) {
    rows.push_back({.temperature = 0.7f,
                    .support_begin = static_cast<int>(support.size())});
    support.insert(support.end(), tokens.begin(), tokens.end());
    rows.back().support_end = static_cast<int>(support.size());
  }
  ComputeDevice& device = Device();
  const auto values = ArrayOf(device, logits.Padded());
  const auto requests = ArrayOf(device, rows);
  const auto tokens = ArrayOf(device, support);
  const auto results = NanArray<GatherResult>(device, 4);
  const auto inside =
      NanArray<float>(device, static_cast<int64_t>(support.size()));
  device.Launch(GatherArgs{.logits = logits.Block(values),
                           .rows = requests.data(),
                           .support = tokens.data(),
                           .results = results.data(),
                           .support_logits = inside.data()});
  const std::vector<GatherResult> got = ValuesOf(device, results);
  const std::vector<float> gathered = ValuesOf(device, inside);
  for (int i = 0; i < 4; ++i) {
    const std::vector<float>& row = logits.rows[i];
    double outside = 0, largest_outside = -1e30;
    for (int t = 0; t < 3000; ++t) {
      if (std::binary_search(supports[i].begin(), supports[i].end(), t))
        continue;
      largest_outside = std::max<double>(largest_outside, row[t]);
    }
    for (int t = 0; t < 3000; ++t) {
      if (std::binary_search(supports[i].begin(), supports[i].end(), t))
        continue;
      outside += std::exp((row[t] - largest_outside) / 0.7f);
    }
    EXPECT_EQ(got[i].largest, *std::max_element(row.begin(), row.end()));
    EXPECT_EQ(got[i].largest_outside, largest_outside);
    EXPECT_NEAR(static_cast<double>(got[i].mass_outside) * kMassUnit, outside,
                outside * 1e-6);
    for (int k = rows[i].support_begin; k < rows[i].support_end; ++k) {
      EXPECT_EQ(gathered[k], row[support[k]]);
    }
  }
}

TEST_P(CudaLogitsTest, BitsDependOnTheRowAlone) {
  const Logits logits = RandomLogits(5, 2100, 2, 15);
  const Logits last = {.vocab = logits.vocab, .rows = {logits.rows[4]}};
  const std::vector<DrawRow> draws(5, RowFor(1, 3));
  const DrawResult drawn = Draw(Device(1), logits, draws)[4];
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const DrawResult alone = Draw(Device(seed), last, {draws[4]})[0];
    ASSERT_EQ(alone.contenders, drawn.contenders);
    for (int i = 0; i < alone.contenders; ++i) {
      EXPECT_EQ(alone.contender[i].token, drawn.contender[i].token);
    }
  }
}

}  // namespace
}  // namespace espalier::cuda
