#include "common/speculation/gumbel_noise.h"

#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;

// Known answers for Philox 4x32-10 from the Random123 library.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, 0),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                     0xffffffffffffffff),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  // The digits of pi.
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                     0x299f31d0a4093822),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// Drafters and verifiers of different builds must have the same noise.
TEST(GumbelNoise, IsPinned) {
  EXPECT_EQ(GumbelNoise(0, 0).Bits(0), Philox({0, 0, 0, 0x57414c4b}, 0)[0]);
  EXPECT_EQ(GumbelNoise(7, (int64_t{3} << 32) + 5).Bits(4 * 11 + 2),
            Philox({11, 5, 3, 0x57414c4b}, 7)[2]);
}

TEST(GumbelNoise, DiffersByPurpose) {
  const GumbelNoise outside(7, 5, NoisePurpose::kOutside);
  EXPECT_EQ(outside.Bits(4 * 11 + 2), Philox({11, 5, 0, 0x4f555453}, 7)[2]);
  EXPECT_NE(outside.Bits(4 * 11 + 2), GumbelNoise(7, 5).Bits(4 * 11 + 2));
}

TEST(GumbelNoise, BlockBitsAreTheBitsOfFourTokens) {
  const GumbelNoise noise(12345, 678);
  for (int32_t block : {0, 1, 1000, (1 << 29) - 1}) {
    const auto bits = noise.BlockBits(block);
    for (int32_t lane = 0; lane < 4; ++lane) {
      EXPECT_EQ(bits[lane], noise.Bits(4 * block + lane));
    }
  }
}

TEST(GumbelNoise, DiffersBySeedPositionAndToken) {
  std::set<uint32_t> seen;
  for (uint64_t seed : {0, 1}) {
    for (int64_t position : {0, 1}) {
      for (TokenId token = 0; token < 8; ++token) {
        seen.insert(GumbelNoise(seed, position).Bits(token));
      }
    }
  }
  EXPECT_EQ(seen.size(), 32u);
}

TEST(GumbelNoise, FromBitsIsTheGumbelQuantile) {
  // The median of the Gumbel distribution is -log(log 2).
  EXPECT_NEAR(GumbelNoise::FromBits(0x80000000), -std::log(std::log(2.0)),
              1e-9);
  // The upper tail is not quantised: g ~ -log v.
  EXPECT_NEAR(GumbelNoise::FromBits(0), 33 * std::log(2.0), 1e-9);
  EXPECT_NEAR(GumbelNoise::FromBits(1), 33 * std::log(2.0) - std::log(3.0),
              1e-9);
  EXPECT_NEAR(GumbelNoise::FromBits(0xffffffff), -std::log(33 * std::log(2.0)),
              1e-9);
}

TEST(GumbelNoise, UpperBoundHoldsWhereItIsTightest) {
  std::vector<uint32_t> boundary = {0, 1, 0xffffffff};
  for (int bit = 1; bit < 32; ++bit) {
    for (int64_t off : {-1, 0, 1}) {
      boundary.push_back(static_cast<uint32_t>((int64_t{1} << bit) + off));
    }
  }
  for (uint32_t bits : boundary) {
    EXPECT_GE(GumbelNoise::UpperBound(bits), GumbelNoise::FromBits(bits))
        << bits;
    EXPECT_GE(GumbelNoise::kUpperBound, GumbelNoise::UpperBound(bits));
  }
}

}  // namespace
}  // namespace espalier
