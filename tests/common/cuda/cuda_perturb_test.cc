// Ranks by logit + temperature * noise against float64 on the host.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/speculation/gumbel_noise.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda::cuda_perturb_test {
namespace {

constexpr int kVocab = 1500, kStride = 1536, kTop = 20;

class PerturbTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(PerturbTest);

struct Problem {
  std::vector<float> logits;  // [rows, kStride]
  std::vector<DrawRow> rows;
  std::vector<int32_t> tokens;  // [kVocab] or empty

  explicit Problem(bool has_tokens) {
    const auto purpose = static_cast<uint32_t>(NoisePurpose::kWalk);
    rows = {
        {.temperature = 0.7f, .seed = 5, .position = 17, .purpose = purpose},
        {.temperature = 0, .seed = 5, .position = 17, .purpose = purpose},
        {.temperature = 1.3f,
         .seed = uint64_t{9} << 40,
         .position = 4000,
         .purpose = purpose}};
    logits = Random(3).Normals(std::ssize(rows) * kStride, 2);
    for (int i = 0; has_tokens && i < kVocab; ++i) tokens.push_back(7 * i + 3);
  }
  int count() const { return static_cast<int>(rows.size()); }
  LogitBlock Block(const DeviceArray<float>& values) const {
    return {values.data(), count(), kVocab, kStride};
  }
  double Score(int row, int column) const {
    const double logit = logits[row * kStride + column];
    const GumbelNoise noise(rows[row].seed,
                            static_cast<int64_t>(rows[row].position));
    return logit + rows[row].temperature *
                       noise(tokens.empty() ? column : tokens[column]);
  }
};

std::vector<float> Perturbed(ComputeDevice& device, const Problem& p) {
  const auto values = ArrayOf(device, p.logits);
  const auto rows = ArrayOf(device, p.rows);
  const auto tokens = ArrayOf(device, p.tokens);
  const auto scores = NanArray<float>(device, std::ssize(p.logits));
  device.Launch(
      PerturbArgs{.logits = p.Block(values),
                  .rows = rows.data(),
                  .tokens = p.tokens.empty() ? nullptr : tokens.data(),
                  .scores = scores.data()});
  return ValuesOf(device, scores);
}

TEST_P(PerturbTest, AddsTheNoiseOfEachToken) {
  for (bool has_tokens : {false, true}) {
    const Problem p(has_tokens);
    const std::vector<float> got = Perturbed(Device(), p);
    for (int row = 0; row < p.count(); ++row) {
      for (int i = 0; i < kVocab; ++i) {
        ASSERT_NEAR(got[row * kStride + i], p.Score(row, i), 5e-5);
      }
      // What pads a row stays.
      EXPECT_TRUE(std::isnan(got[row * kStride + kVocab]));
    }
  }
}

TEST_P(PerturbTest, BitsDoNotDependOnOtherRows) {
  const Problem p(true);
  const std::vector<float> all = Perturbed(Device(1), p);
  Problem last(true);
  last.rows = {p.rows[2]};
  last.logits.assign(p.logits.begin() + 2 * kStride, p.logits.end());
  const std::vector<float> alone = Perturbed(Device(2), last);
  for (int i = 0; i < kVocab; ++i) ASSERT_EQ(alone[i], all[2 * kStride + i]);
}

// Tokens are ranked by their scores; logits and mass are the plain ones.
TEST_P(PerturbTest, RanksByScores) {
  const Problem p(true);
  ComputeDevice& device = Device();
  const auto values = ArrayOf(device, p.logits);
  const auto scores = ArrayOf(device, Perturbed(device, p));
  const auto results = NanArray<RankResult>(device, p.count());
  const auto top = NanArray<LogitOfToken>(device, p.count() * kTop);
  const auto parts = NanArray<RankPart>(device, p.count() * kMaxRankParts);
  device.Launch(RankArgs{.logits = p.Block(values),
                         .scores = scores.data(),
                         .top_k = kTop,
                         .parts = parts.data(),
                         .results = results.data(),
                         .top = top.data()});
  const std::vector<RankResult> ranked = ValuesOf(device, results);
  const std::vector<LogitOfToken> tokens = ValuesOf(device, top);
  for (int row = 0; row < p.count(); ++row) {
    std::vector<int> order(kVocab);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return p.Score(row, a) > p.Score(row, b); });
    const float* const logits = &p.logits[row * kStride];
    double sum = 0;
    const float largest = *std::max_element(logits, logits + kVocab);
    for (int i = 0; i < kVocab; ++i) {
      sum += std::exp(double{logits[i]} - largest);
    }
    EXPECT_EQ(ranked[row].largest, largest);
    EXPECT_NEAR(static_cast<double>(ranked[row].mass) * kMassUnit, sum,
                sum * 1e-6);
    for (int k = 0; k < kTop; ++k) {
      const LogitOfToken& token = tokens[row * kTop + k];
      // Near ties may differ.
      EXPECT_NEAR(p.Score(row, token.token), p.Score(row, order[k]), 1e-4);
      EXPECT_EQ(token.logit, logits[token.token]);
    }
  }
}

}  // namespace
}  // namespace espalier::cuda::cuda_perturb_test
