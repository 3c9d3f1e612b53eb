// Filters, and draws of what they keep, against the same from sorted rows on
// the host.
#include <algorithm>
#include <vector>

#include "tests/common/cuda/logits_testing.h"

namespace espalier::cuda {
namespace {

class CudaFiltersTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(CudaFiltersTest);

std::vector<float> LogWeights(const std::vector<float>& logits,
                              float temperature) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<float> weights;
  for (float logit : logits) {
    weights.push_back(espalier::LogWeight(logit, largest, temperature));
  }
  return weights;
}

// Returns the tokens that min-p, then top-k, then top-p keep, in float64.
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
  return uint64_t{bits} * kMaxTokens +
         static_cast<uint64_t>(kMaxTokens - 1 - token);
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

TEST_P(CudaFiltersTest, FiltersAsSortedRows) {
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

TEST_P(CudaFiltersTest, DrawsWhatFiltersKeep) {
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
TEST_P(CudaFiltersTest, DoubtsAboutTheNucleusAreTold) {
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

TEST_P(CudaFiltersTest, BitsDependOnTheRowAlone) {
  const Logits logits = RandomLogits(5, 2100, 2, 15);
  const Logits last = {.vocab = logits.vocab, .rows = {logits.rows[4]}};
  const std::vector<FilterRow> filters(5, {0.9f, 100, 0.8f});
  const std::vector<FilterResult> kept = RunFilter(Device(1), logits, filters);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const std::vector<FilterResult> again =
        RunFilter(Device(seed), logits, filters);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(again[i].lowest, kept[i].lowest);
      EXPECT_EQ(again[i].sure, kept[i].sure);
    }
    const FilterResult own = RunFilter(Device(seed), last, {filters[4]})[0];
    EXPECT_EQ(own.lowest, kept[4].lowest);
    EXPECT_EQ(own.sure, kept[4].sure);
  }
}

}  // namespace
}  // namespace espalier::cuda
