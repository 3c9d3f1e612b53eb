// Draws, filters, ranks and gathers against the same from whole rows on the
// host.
#include <algorithm>
#include <numeric>
#include <vector>

#include "common/cuda/kernels/gumbel.h"
#include "common/spec/gumbel_noise.h"
#include "common/spec/noisy_argmax.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class CudaLogitsTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(CudaLogitsTest);

// Rows of logits, padded as a product leaves them.
struct Logits {
  int vocab;
  std::vector<std::vector<float>> rows;

  int64_t stride() const { return (vocab + 63) / 64 * 64; }
  int count() const { return static_cast<int>(rows.size()); }
  std::vector<float> Padded() const {
    std::vector<float> all(count() * stride(), 1e30f);  // never looked at
    for (int i = 0; i < count(); ++i) {
      std::copy(rows[i].begin(), rows[i].end(), all.begin() + i * stride());
    }
    return all;
  }
  LogitBlock Block(const DeviceArray<float>& array) const {
    return {array.data(), count(), vocab, stride()};
  }
};

Logits RandomLogits(int rows, int vocab, float scale, uint64_t seed) {
  Random random(seed);
  Logits logits = {.vocab = vocab};
  for (int i = 0; i < rows; ++i) {
    logits.rows.push_back(random.Normals(vocab, scale));
  }
  return logits;
}

// Rows that are hard to rank: all equal, few values, signs of zero, far apart.
Logits HardLogits(int vocab) {
  Random random(99);
  Logits logits = {.vocab = vocab};
  logits.rows.assign(5, std::vector<float>(vocab, 0));
  for (int i = 0; i < vocab; ++i) {
    logits.rows[1][i] = static_cast<float>(random.Below(3));
    logits.rows[2][i] = i % 2 == 0 ? 0.0f : -0.0f;
    logits.rows[3][i] = 1e30f * random.Normal();
    logits.rows[4][i] = -50 - static_cast<float>(i) * 1e-4f;
  }
  logits.rows[4][vocab - 1] = 40;
  return logits;
}

std::vector<int> ByRank(const std::vector<float>& row) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return row[a] != row[b] ? row[a] > row[b] : a < b;
  });
  return order;
}

// --- draws

std::vector<DrawResult> Draw(ComputeDevice& device, const Logits& logits,
                             const std::vector<DrawRow>& rows,
                             const std::vector<int32_t>& without = {},
                             const FilterResult* filters = nullptr) {
  const auto values = ArrayOf(device, logits.Padded());
  const auto requests = ArrayOf(device, rows);
  const auto excluded = ArrayOf(device, without);
  const int64_t chunks =
      (logits.vocab + kDrawChunkTokens - 1) / kDrawChunkTokens;
  const auto scratch = NanArray<DrawChunk>(device, logits.count() * chunks);
  const auto results = NanArray<DrawResult>(device, logits.count());
  device.Launch(DrawArgs{.logits = logits.Block(values),
                         .rows = requests.data(),
                         .without = excluded.data(),
                         .filters = filters,
                         .chunks = scratch.data(),
                         .results = results.data()});
  return ValuesOf(device, results);
}

DrawRow RowFor(float temperature, int64_t position, uint64_t seed = 7) {
  return {.temperature = temperature,
          .margin = (temperature == 0 ? 1 : temperature) * 1.5e-3f,
          .seed = seed,
          .position = static_cast<uint64_t>(position),
          .purpose = static_cast<uint32_t>(NoisePurpose::kWalk)};
}

struct Drawn {
  int token = -1;
  bool near_tie = false;

  friend bool operator==(const Drawn&, const Drawn&) = default;
};

// Of the given tokens.
template <typename LogitOf>
Drawn DrawAmong(const std::vector<int>& tokens, LogitOf logit, float largest,
                const DrawRow& row) {
  if (row.temperature == 0) {
    Drawn drawn = {.token = tokens[0]};
    for (int token : tokens) {
      if (logit(token) > logit(drawn.token)) drawn.token = token;
    }
    int near = 0;
    for (int token : tokens) {
      near += double{logit(drawn.token)} - logit(token) <= kNearTie;
    }
    drawn.near_tie = near > 1;
    return drawn;
  }
  NoisyArgmax argmax(GumbelNoise(row.seed, static_cast<int64_t>(row.position),
                                 static_cast<NoisePurpose>(row.purpose)));
  for (int token : tokens) {
    argmax.Consider(token, LogWeight(logit(token), largest, row.temperature));
  }
  return {argmax.winner(), argmax.near_tie()};
}

Drawn FromContenders(const DrawResult& result, const DrawRow& row) {
  EXPECT_LE(result.contenders, kMostContenders);
  std::vector<int> tokens;
  for (int i = 0; i < result.contenders; ++i) {
    tokens.push_back(result.contender[i].token);
    EXPECT_TRUE(i == 0 || tokens[i - 1] < tokens[i]);
  }
  const auto logit = [&](int token) {
    for (const LogitOfToken& c : result.contender) {
      if (c.token == token) return c.logit;
    }
    return 0.0f;
  };
  return DrawAmong(tokens, logit, result.largest, row);
}

Drawn FromRow(const std::vector<float>& logits, const DrawRow& row,
              const std::vector<int32_t>& without = {}) {
  std::vector<int> tokens;
  for (int i = 0; i < static_cast<int>(logits.size()); ++i) {
    if (!std::binary_search(without.begin(), without.end(), i))
      tokens.push_back(i);
  }
  return DrawAmong(
      tokens, [&](int token) { return logits[token]; },
      *std::max_element(logits.begin(), logits.end()), row);
}

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
  EXPECT_GT(results[1].contenders, kMostContenders);
  EXPECT_GT(results[2].contenders, kMostContenders);
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
  device.Launch(RankArgs{.logits = logits.Block(values),
                         .top_k = 3,
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

// --- filters

std::vector<float> LogWeights(const std::vector<float>& logits,
                              float temperature) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<float> weights;
  for (float logit : logits) {
    weights.push_back(espalier::LogWeight(logit, largest, temperature));
  }
  return weights;
}

// Those that min-p, then top-k, then top-p keep, in float64.
std::vector<int> Kept(const std::vector<float>& logits, const FilterRow& row) {
  const std::vector<float> weights = LogWeights(logits, row.temperature);
  std::vector<int> kept = ByRank(weights);
  std::erase_if(kept,
                [&](int token) { return weights[token] < row.least_weight; });
  if (row.top_k > 0 && row.top_k < static_cast<int>(kept.size()))
    kept.resize(row.top_k);
  const auto weight = [&](int token) {
    return std::exp(double{weights[token]});
  };
  double total = 0, mass = 0;
  for (int token : kept) total += weight(token);
  if (row.top_p == 1) return kept;
  size_t size = 0;
  do {
    mass += weight(kept[size++]);
  } while (mass < double{row.top_p} * total && size < kept.size());
  kept.resize(size);
  return kept;
}

TokenRank ExpectedRank(float score, int token) {
  uint32_t bits;
  score += 0.0f;  // -0 is 0
  std::memcpy(&bits, &score, 4);
  bits = bits & 0x80000000 ? ~bits : bits | 0x80000000;
  return uint64_t{bits} * kMostTokens +
         static_cast<uint64_t>(kMostTokens - 1 - token);
}

std::vector<FilterResult> RunFilter(ComputeDevice& device, const Logits& logits,
                                    const std::vector<FilterRow>& rows) {
  const auto values = ArrayOf(device, logits.Padded());
  const auto requests = ArrayOf(device, rows);
  const auto results = NanArray<FilterResult>(device, logits.count());
  device.Launch(FilterArgs{.logits = logits.Block(values),
                           .rows = requests.data(),
                           .results = results.data()});
  return ValuesOf(device, results);
}

std::vector<DrawResult> DrawFiltered(ComputeDevice& device,
                                     const Logits& logits,
                                     const std::vector<FilterRow>& filters,
                                     const std::vector<DrawRow>& rows) {
  const auto results = ArrayOf(device, RunFilter(device, logits, filters));
  return Draw(device, logits, rows, {}, results.data());
}

// Doubtful tokens weigh no more than rounding may, but for one token.
void ExpectFewDoubts(const FilterResult& result,
                     const std::vector<float>& weights) {
  double total = 0, doubtful = 0;
  for (int token = 0; token < static_cast<int>(weights.size()); ++token) {
    const double weight = std::exp(double{weights[token]});
    const TokenRank rank = ExpectedRank(weights[token], token);
    if (rank >= result.lowest) total += weight;
    if (rank >= result.lowest && rank < result.sure) doubtful += weight;
  }
  EXPECT_LE(doubtful, 1.0 + 4e-6 * total);
}

TEST_P(CudaLogitsTest, FiltersAsSortedRows) {
  const FilterRow filters[] = {
      {1, 1, 1},      {1, 40, 1},           {1, 0, 0.9f},     {0.7f, 50, 0.8f},
      {2, 0, 0.999f}, {1, 7, 0.3f},         {1, 0, 1e-6f},    {1, 100000, 0.5f},
      {1, 0, 1, -2},  {0.6f, 30, 1, -1.5f}, {1, 9, 0.6f, -4}, {0.01f, 20, 1}};
  for (const Logits& logits :
       {RandomLogits(5, 3000, 3, 11), HardLogits(1500)}) {
    for (const FilterRow& filter : filters) {
      const std::vector<FilterResult> results = RunFilter(
          Device(), logits, std::vector<FilterRow>(logits.count(), filter));
      for (int i = 0; i < logits.count(); ++i) {
        const std::vector<float> weights =
            LogWeights(logits.rows[i], filter.temperature);
        const std::vector<int> kept = Kept(logits.rows[i], filter);
        SCOPED_TRACE(testing::Message()
                     << "row " << i << ", top_k " << filter.top_k << ", top_p "
                     << filter.top_p << ": " << kept.size() << " kept");
        std::vector<TokenRank> ranks;
        for (int token : kept) {
          ranks.push_back(ExpectedRank(weights[token], token));
        }
        EXPECT_EQ(results[i].largest, *std::max_element(logits.rows[i].begin(),
                                                        logits.rows[i].end()));
        if (filter.top_p < 1) {
          EXPECT_LE(results[i].lowest, ranks.back());
          EXPECT_GE(results[i].sure, ranks.back());
          EXPECT_LE(results[i].sure, ranks.front());
          ExpectFewDoubts(results[i], weights);
          continue;
        }
        EXPECT_EQ(results[i].lowest, results[i].sure);
        int64_t above = 0;
        for (int token = 0; token < logits.vocab; ++token) {
          above += ExpectedRank(weights[token], token) >= results[i].lowest;
        }
        EXPECT_EQ(above, std::ssize(kept));
        EXPECT_LE(results[i].lowest, ranks.back());
      }
    }
  }
}

TEST_P(CudaLogitsTest, DrawsWhatFiltersKeep) {
  const Logits logits = RandomLogits(12, 3000, 2, 12);
  const FilterRow filter = {.temperature = 2, .top_k = 60, .top_p = 0.8f};
  std::vector<DrawRow> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(RowFor(2, i));
  const std::vector<DrawResult> results =
      DrawFiltered(Device(), logits, {12, filter}, rows);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(results[i].is_doubtful, 0);
    const std::vector<int> kept = Kept(logits.rows[i], filter);
    const Drawn wanted = DrawAmong(
        kept, [&](int token) { return logits.rows[i][token]; },
        logits.rows[i][kept[0]], rows[i]);
    EXPECT_EQ(FromContenders(results[i], rows[i]), wanted);
  }
}

// Two tokens of one weight and a nucleus that is full with the first, were it
// not for rounding: draws tell when it matters.
TEST_P(CudaLogitsTest, DoubtsAboutTheNucleusAreTold) {
  Logits logits = {.vocab = 2100};
  logits.rows.assign(40, std::vector<float>(2100, -90));
  std::vector<DrawRow> rows;
  int doubtful = 0;
  for (int i = 0; i < 40; ++i) {
    logits.rows[i][30] = logits.rows[i][2070] = 3;
    rows.push_back(RowFor(1, i));
  }
  const FilterRow filter = {.top_p = 0.5f};
  const std::vector<DrawResult> results =
      DrawFiltered(Device(), logits, {40, filter}, rows);
  for (int i = 0; i < 40; ++i) {
    const bool is_second = FromRow(logits.rows[i], rows[i]).token == 2070;
    EXPECT_EQ(results[i].is_doubtful, is_second);
    doubtful += results[i].is_doubtful;
  }
  EXPECT_GT(doubtful, 5);
  EXPECT_LT(doubtful, 35);
}

// --- ranks and gathers

TEST_P(CudaLogitsTest, RanksAsSortedRows) {
  for (const Logits& logits :
       {RandomLogits(3, 3000, 3, 13), HardLogits(1030)}) {
    for (int top_k : {0, 1, 20, kMostRanked}) {
      ComputeDevice& device = Device();
      const auto values = ArrayOf(device, logits.Padded());
      const auto results = NanArray<RankResult>(device, logits.count());
      const auto top = NanArray<LogitOfToken>(device, logits.count() * top_k);
      device.Launch(RankArgs{.logits = logits.Block(values),
                             .top_k = top_k,
                             .results = results.data(),
                             .top = top.data()});
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
  const std::vector<FilterRow> filters(5, {0.9f, 100, 0.8f});
  const std::vector<DrawRow> draws(5, RowFor(1, 3));
  const std::vector<FilterResult> kept = RunFilter(Device(1), logits, filters);
  const std::vector<DrawResult> drawn = Draw(Device(1), logits, draws);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const std::vector<FilterResult> again =
        RunFilter(Device(seed), logits, filters);
    const FilterResult own = RunFilter(Device(seed), last, {filters[4]})[0];
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(again[i].lowest, kept[i].lowest);
      EXPECT_EQ(again[i].sure, kept[i].sure);
    }
    EXPECT_EQ(own.lowest, kept[4].lowest);
    EXPECT_EQ(own.sure, kept[4].sure);
    const DrawResult alone = Draw(Device(seed), last, {draws[4]})[0];
    ASSERT_EQ(alone.contenders, drawn[4].contenders);
    for (int i = 0; i < alone.contenders; ++i) {
      EXPECT_EQ(alone.contender[i].token, drawn[4].contender[i].token);
    }
  }
}

}  // namespace
}  // namespace espalier::cuda
