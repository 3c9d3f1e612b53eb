#include "common/model/cuda/e4m3_row.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/base/bf16.h"
#include "gtest/gtest.h"
#include "tests/testing/e4m3_value.h"

namespace espalier {
namespace {

struct Rounded {
  float scale;
  std::vector<uint8_t> codes;
};

Rounded RoundRow(const std::vector<float>& row) {
  std::vector<uint16_t> bits;
  for (float value : row) bits.push_back(FloatToBf16(value));
  Rounded rounded = {.codes = std::vector<uint8_t>(row.size(), 0xAB)};
  rounded.scale = RoundToE4m3(bits, absl::MakeSpan(rounded.codes));
  return rounded;
}

TEST(E4m3RowTest, TheLargestBecomesTheLargest) {
  const Rounded row = RoundRow({1, -7, 3.5, 0, -0.4375});
  EXPECT_EQ(row.scale, 7.0f / 448);
  EXPECT_EQ(row.codes, (std::vector<uint8_t>{0x68, 0xFE, 0x76, 0x00, 0xDE}));
}

// Half of a step: 2^-4 of the number, or 2^-10 of the scale.
TEST(E4m3RowTest, EveryNumberIsNear) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float size : {1e-30f, 1e-3f, 1.0f, 1e30f}) {
    std::vector<float> row(1000);
    for (float& x : row) x = Bf16ToFloat(FloatToBf16(normal(random) * size));
    const Rounded rounded = RoundRow(row);
    for (size_t i = 0; i < row.size(); ++i) {
      const double value = E4m3Value(rounded.codes[i]) * rounded.scale;
      ASSERT_LE(
          std::abs(value - row[i]),
          std::max(std::abs(row[i]) * 0x1.001p-4, rounded.scale * 0x1.001p-10));
    }
  }
}

TEST(E4m3RowTest, RowsOfZerosAndOfTheSmallestNumbersAreFinite) {
  const Rounded zeros = RoundRow({0, 0, -0.0f});
  EXPECT_TRUE(std::isfinite(zeros.scale));
  EXPECT_EQ(zeros.codes, (std::vector<uint8_t>{0, 0, 0x80}));
  const Rounded small = RoundRow({0x1p-133f, 0});
  EXPECT_TRUE(std::isfinite(small.scale));
  EXPECT_EQ(small.codes[1], 0);
}

TEST(E4m3RowTest, ARowThatIsNotFiniteStaysSo) {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    EXPECT_TRUE(std::isnan(RoundRow({1, bad, 2}).scale));
  }
}

}  // namespace
}  // namespace espalier
