// Gathering with libtorch's operators equals gathering from whole rows. Runs on
// the CPU; other devices use the same operators.
#include "common/model/aten/device_logit_rows.h"

#include <ATen/ATen.h>

#include <limits>
#include <memory>

#include "gtest/gtest.h"

namespace espalier {
namespace {

constexpr int64_t kVocab = 1000;
constexpr TokenId kLast = kVocab - 1;

at::Tensor RandomLogits(int64_t rows) {
  at::manual_seed(1);
  return 3 * at::randn({rows, kVocab});
}

absl::Span<const float> RowOf(const at::Tensor& logits, int64_t row) {
  return {logits.const_data_ptr<float>() + row * kVocab, kVocab};
}

// For three rows: nothing, some tokens, all.
GatherRequest Request(float temperature) {
  RowSupports supports;
  supports.Add({});
  supports.Add({0, 5, 998, kLast});
  std::vector<TokenId> all;
  for (TokenId token = 0; token < kVocab; ++token) all.push_back(token);
  supports.Add(all);
  return {.temperature = temperature,
          .seed = 3,
          .round = 7,
          .supports = std::make_shared<RowSupports>(supports)};
}

TEST(DeviceLogitRowsTest, GatheredIsWhatTheRowsHave) {
  const at::Tensor logits = RandomLogits(7);
  // Nearly everything is in the support, and the rest next to nothing.
  logits[1].slice(0, 5, 6).fill_(60);
  for (float temperature : {0.1f, 1.0f, 100.0f}) {
    const DeviceLogitRows rows(logits);
    const GatherRequest request = Request(temperature);
    for (int64_t first : {0, 4}) {
      for (int64_t index : {2, 0, 1}) {
        const auto got = rows.Gather(first + index, request, index);
        const auto row = RowOf(logits, first + index);
        const auto expected = GatherFrom(row, request, index);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(got->log_weights, expected->log_weights);
        EXPECT_NEAR(got->outside, expected->outside, 1e-4 * expected->outside);
        if (index == 2) {
          EXPECT_EQ(got->outside, 0);
          continue;
        }
        EXPECT_GT(got->outside, 0);
        EXPECT_EQ(*rows.SampleOutside(first + index, request, index),
                  *SampleOutsideFrom(row, request, index));
      }
    }
  }
}

TEST(DeviceLogitRowsTest, RowThatIsNotFiniteIsNamedAlone) {
  const float inf = std::numeric_limits<float>::infinity();
  for (float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    const at::Tensor logits = RandomLogits(3);
    logits[1].slice(0, 640, 641).fill_(bad);
    const DeviceLogitRows rows(logits);
    const GatherRequest request = Request(1);
    EXPECT_EQ(rows.Gather(1, request, 1).status(),
              CheckFinite(RowOf(logits, 1)));
    EXPECT_TRUE(rows.Gather(0, request, 0).ok());
    EXPECT_TRUE(rows.Gather(2, request, 2).ok());
  }
}

}  // namespace
}  // namespace espalier
