#include "verifier/engine/feature_cache.h"

#include <vector>

#include "gtest/gtest.h"

namespace espalier::verifier::feature_cache_test {
namespace {

using Tokens = std::vector<TokenId>;

// Hidden states of two numbers: position and tap.
FeatureRows RowsOf(const std::vector<int32_t>& taps, int64_t first,
                   int64_t end) {
  FeatureRows rows = {.first_position = first,
                      .width = 2 * static_cast<int64_t>(taps.size())};
  for (int64_t position = first; position < end; ++position) {
    for (int32_t tap : taps) {
      rows.data.push_back(static_cast<uint16_t>(position));
      rows.data.push_back(static_cast<uint16_t>(tap));
    }
  }
  return rows;
}

const Tokens kText = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
const std::vector<int32_t> kTaps = {1, 3, 5};

class FeatureCacheTest : public ::testing::Test {
 protected:
  FeatureRows Held(const Tokens& text, const std::vector<int32_t>& taps,
                   int64_t from = 0, absl::string_view salt = "") {
    FeatureRows rows = RowsOf(taps, from, from);
    const int64_t end = cache_.EndAfterExtend({text, salt, taps}, from);
    cache_.Extend({text, salt, taps}, rows);
    EXPECT_EQ(rows.end_position(), end);
    return rows;
  }

  FeatureCache cache_{{.block_tokens = 4, .max_bytes = 1 << 20}};
};

TEST_F(FeatureCacheTest, WholeBlocksAreKeptAndTheRestStaysWithTheCaller) {
  FeatureRows rows = RowsOf(kTaps, 0, 10);
  cache_.Offer({kText, "", kTaps}, rows);
  EXPECT_EQ(rows, RowsOf(kTaps, 8, 10));
  EXPECT_EQ(Held(kText, kTaps), RowsOf(kTaps, 0, 8));
  EXPECT_EQ(Held(kText, kTaps, 6), RowsOf(kTaps, 6, 8));
  EXPECT_EQ(Held(kText, {3}), RowsOf({3}, 0, 8));
  EXPECT_TRUE(Held(kText, {2, 3}).empty());
  EXPECT_TRUE(Held(kText, kTaps, 0, "salt").empty());
  EXPECT_EQ(Held({1, 2, 3, 4, 5, 6, 7}, kTaps), RowsOf(kTaps, 0, 4));
  EXPECT_EQ(Held({1, 2, 3, 4, 0, 0, 0, 0}, kTaps), RowsOf(kTaps, 0, 4));
}

TEST_F(FeatureCacheTest, BlocksAfterAGapServeWhoNeedsThoseAlone) {
  FeatureRows rows = RowsOf(kTaps, 3, 10);
  cache_.Offer({kText, "", kTaps}, rows);
  EXPECT_TRUE(Held(kText, kTaps).empty());
  EXPECT_EQ(Held(kText, kTaps, 4), RowsOf(kTaps, 4, 8));
}

TEST_F(FeatureCacheTest, MoreTapsReplaceFewer) {
  for (const std::vector<int32_t>& taps :
       {std::vector<int32_t>{3}, kTaps, std::vector<int32_t>{3}}) {
    FeatureRows rows = RowsOf(taps, 0, 8);
    cache_.Offer({kText, "", taps}, rows);
    EXPECT_EQ(Held(kText, taps), RowsOf(taps, 0, 8));
  }
  EXPECT_EQ(Held(kText, kTaps), RowsOf(kTaps, 0, 8));
}

TEST_F(FeatureCacheTest, TheLeastRecentlyUsedTextGoesAndItsBeginningLast) {
  FeatureCache small({.block_tokens = 4, .max_bytes = 3000});
  const auto held = [&](TokenId first) {
    FeatureRows rows = RowsOf(kTaps, 0, 0);
    small.Extend({Tokens(8, first), "", kTaps}, rows);
    return rows.num_rows();
  };
  for (TokenId first = 0; first < 3; ++first) {
    FeatureRows rows = RowsOf(kTaps, 0, 8);
    small.Offer({Tokens(8, first), "", kTaps}, rows);
    EXPECT_LE(small.num_bytes(), 3000);
    EXPECT_EQ(held(0), 8) << first;  // used each time
  }
  EXPECT_EQ(held(2), 8);
  EXPECT_EQ(held(1), 4);
}

}  // namespace
}  // namespace espalier::verifier::feature_cache_test
