// Rows of logits for tests of draws, filters, ranks and gathers, and draws from
// whole rows on the host.
#ifndef ESPALIER_TESTS_COMMON_CUDA_LOGITS_TESTING_H_
#define ESPALIER_TESTS_COMMON_CUDA_LOGITS_TESTING_H_

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/cuda/kernels/gumbel.h"
#include "common/speculation/gumbel_noise.h"
#include "common/speculation/noisy_argmax.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {

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

inline Logits RandomLogits(int rows, int vocab, float scale, uint64_t seed) {
  Random random(seed);
  Logits logits = {.vocab = vocab};
  for (int i = 0; i < rows; ++i) {
    logits.rows.push_back(random.Normals(vocab, scale));
  }
  return logits;
}

// Returns rows that are hard to rank: all equal, few values, signs of zero, far
// apart.
inline Logits HardLogits(int vocab) {
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

inline std::vector<int> ByRank(const std::vector<float>& row) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return row[a] != row[b] ? row[a] > row[b] : a < b;
  });
  return order;
}

inline std::vector<DrawResult> Draw(ComputeDevice& device, const Logits& logits,
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

inline DrawRow RowFor(float temperature, int64_t position, uint64_t seed = 7) {
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

// Draws among the given tokens.
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

inline Drawn FromContenders(const DrawResult& result, const DrawRow& row) {
  EXPECT_LE(result.contenders, kMaxContenders);
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

inline Drawn FromRow(const std::vector<float>& logits, const DrawRow& row,
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

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_COMMON_CUDA_LOGITS_TESTING_H_
