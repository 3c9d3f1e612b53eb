#include "common/speculation/features.h"

#include "gtest/gtest.h"

namespace espalier {
namespace {

// Two numbers per position: the position and the tag.
FeatureRows Rows(int64_t first, int64_t end, uint16_t tag = 7) {
  FeatureRows rows = {.first_position = first, .width = 2};
  for (int64_t i = first; i < end; ++i) {
    rows.data.push_back(static_cast<uint16_t>(i));
    rows.data.push_back(tag);
  }
  return rows;
}

FeatureRows Extended(FeatureRows rows, const FeatureRows& more) {
  rows.Extend(more);
  return rows;
}

FeatureRows CutFrom(FeatureRows rows, int64_t position) {
  rows.CutFrom(position);
  return rows;
}

TEST(FeatureRows, KnowsItsPositions) {
  const FeatureRows rows = Rows(3, 7);
  EXPECT_EQ(rows.num_rows(), 4);
  EXPECT_EQ(rows.end_position(), 7);
  EXPECT_EQ(rows.num_bytes(), 16);
  EXPECT_EQ(rows.Row(5)[0], 5);
  EXPECT_TRUE(FeatureRows().empty());
  EXPECT_EQ(FeatureRows().num_rows(), 0);
}

TEST(FeatureRows, ExtendTakesOnlyWhatIsNew) {
  EXPECT_EQ(Extended(Rows(0, 3), Rows(3, 5)), Rows(0, 5));
  EXPECT_EQ(Extended(Rows(0, 3), Rows(1, 3, 8)), Rows(0, 3));
  EXPECT_EQ(Extended(Rows(2, 5), FeatureRows{}), Rows(2, 5));
  const FeatureRows both = Extended(Rows(0, 3), Rows(1, 5, 8));
  EXPECT_EQ(both.end_position(), 5);
  EXPECT_EQ(both.Row(2)[1], 7);
  EXPECT_EQ(both.Row(3)[1], 8);
  EXPECT_EQ(Extended(Rows(2, 4), Rows(0, 5)), Rows(0, 5));
}

TEST(FeatureRows, BehindAGapOnlyTheNewRowsStay) {
  EXPECT_EQ(Extended(Rows(0, 3), Rows(4, 6)), Rows(4, 6));
  EXPECT_EQ(Extended({.width = 2}, Rows(4, 6)), Rows(4, 6));
  EXPECT_EQ(Extended({.width = 3}, Rows(0, 2)), Rows(0, 2));
}

TEST(FeatureRows, AreCutAtEitherEnd) {
  EXPECT_EQ(CutFrom(Rows(2, 6), 4), Rows(2, 4));
  EXPECT_EQ(CutFrom(Rows(2, 6), 9), Rows(2, 6));
  EXPECT_EQ(CutFrom(Rows(2, 6), 1), Rows(1, 1));
  FeatureRows rows = Rows(2, 6);
  rows.CutBefore(4);
  EXPECT_EQ(rows, Rows(4, 6));
  rows.CutBefore(1);
  EXPECT_EQ(rows, Rows(4, 6));
  rows.CutBefore(8);
  EXPECT_EQ(rows, Rows(6, 6));
}

TEST(TargetShape, ServesAscendingPointsThatItHas) {
  const TargetShape target = {.num_layers = 3, .hidden_size = 8};
  EXPECT_TRUE(target.Serves({}));
  EXPECT_TRUE(target.Serves({{0, 1, 3, NormedTap(3)}, 8}));
  EXPECT_FALSE(target.Serves({{5}, 8}));
  EXPECT_FALSE(target.Serves({{-1}, 8}));
  EXPECT_FALSE(target.Serves({{2, 1}, 8}));
  EXPECT_FALSE(target.Serves({{1, 1}, 8}));
  EXPECT_FALSE(target.Serves({{1}, 9}));
  EXPECT_FALSE(TargetShape({.num_layers = 3, .hidden_size = kMaxFeatureWidth})
                   .Serves({{0, 1}, kMaxFeatureWidth}));
}

}  // namespace
}  // namespace espalier
