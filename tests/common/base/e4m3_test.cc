#include "common/base/e4m3.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "tests/testing/e4m3_value.h"

namespace espalier {
namespace {

TEST(E4m3Test, EveryValueIsItsOwn) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;  // NaN
    EXPECT_EQ(
        FloatToE4m3(static_cast<float>(E4m3Value(static_cast<uint8_t>(code)))),
        code);
  }
}

// Between any two neighbours: what is nearer, and the even one of both.
TEST(E4m3Test, RoundsToNearestTiesToEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const auto low = static_cast<float>(E4m3Value(static_cast<uint8_t>(code)));
    const auto high =
        static_cast<float>(E4m3Value(static_cast<uint8_t>(code + 1)));
    const float middle = (low + high) / 2;
    const int even = code % 2 == 0 ? code : code + 1;
    for (const int sign : {0, 0x80}) {
      const auto rounded = [sign](float x) {
        return FloatToE4m3(sign == 0 ? x : -x);
      };
      EXPECT_EQ(rounded(middle), sign | even);
      EXPECT_EQ(rounded(std::nextafter(middle, 0.0f)), sign | code);
      EXPECT_EQ(rounded(std::nextafter(middle, 1e3f)), sign | (code + 1));
      EXPECT_EQ(rounded(low + (high - low) * 0.25f), sign | code);
      EXPECT_EQ(rounded(low + (high - low) * 0.75f), sign | (code + 1));
    }
  }
}

TEST(E4m3Test, WhatIsTooLargeIsTheLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float value : {448.0f, 449.0f, 464.0f, 480.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(FloatToE4m3(value), 0x7E) << value;
    EXPECT_EQ(FloatToE4m3(-value), 0xFE) << value;
  }
  EXPECT_EQ(FloatToE4m3(std::nanf("")) & 0x7F, 0x7F);
}

TEST(E4m3Test, WhatIsTooSmallIsZero) {
  EXPECT_EQ(FloatToE4m3(0.0f), 0);
  EXPECT_EQ(FloatToE4m3(-0.0f), 0x80);
  EXPECT_EQ(FloatToE4m3(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(FloatToE4m3(0x1p-10f), 0);  // a tie: half of the smallest
  EXPECT_EQ(FloatToE4m3(std::nextafter(0x1p-10f, 1.0f)), 1);
}

// Any bits: no code is nearer.
TEST(E4m3Test, NoCodeIsNearer) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random());
    float value;
    std::memcpy(&value, &bits, 4);
    if (i % 2 == 0) value = std::ldexp(value, -std::ilogb(value) + i % 24 - 12);
    if (!(std::abs(value) <= 448)) continue;
    const double got = std::abs(E4m3Value(FloatToE4m3(value)) - value);
    for (int code = 0; code < 256; ++code) {
      if ((code & 0x7F) == 0x7F) continue;
      ASSERT_LE(got, std::abs(E4m3Value(static_cast<uint8_t>(code)) - value))
          << value;
    }
  }
}

}  // namespace
}  // namespace espalier
