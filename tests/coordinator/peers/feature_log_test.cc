#include "coordinator/peers/feature_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;

constexpr TargetShape kTarget = {.num_layers = 6, .hidden_size = 1};

FeatureContract Taps(std::vector<int32_t> taps) {
  return {.taps = std::move(taps), .hidden_size = 1};
}

// The value at a position is 10 * position + tap.
FeatureRows Rows(int64_t first, int64_t end, std::vector<int32_t> taps) {
  FeatureRows rows = {.first_position = first,
                      .width = static_cast<int64_t>(taps.size())};
  for (int64_t i = first; i < end; ++i) {
    for (int32_t tap : taps) {
      rows.data.push_back(static_cast<uint16_t>(10 * i + tap));
    }
  }
  return rows;
}

TEST(FeatureLog, AsksForWhatAllWantAndGivesEachItsPart) {
  FeatureLog log(kTarget, 1000);
  EXPECT_TRUE(log.Request().taps.empty());
  log.Want(Taps({2, 5}));
  log.Want(Taps({0, 5, 7}));
  EXPECT_THAT(log.Request().taps, ElementsAre(0, 2, 5, 7));
  log.Add(Rows(0, 4, {0, 2, 5, 7}), 4);
  EXPECT_EQ(log.Request().first_position, 4);
  EXPECT_EQ(log.From(0, Taps({2, 5})), Rows(0, 4, {2, 5}));
  EXPECT_EQ(log.From(3, Taps({0, 5, 7})), Rows(3, 4, {0, 5, 7}));
  EXPECT_TRUE(log.From(4, Taps({2, 5})).empty());
  EXPECT_TRUE(log.From(9, Taps({2, 5})).empty());
  EXPECT_TRUE(log.From(0, Taps({3})).empty());
  EXPECT_TRUE(log.From(0, {}).empty());
}

TEST(FeatureLog, ANewPointStartsOver) {
  FeatureLog log(kTarget, 1000);
  log.Want(Taps({2}));
  log.Add(Rows(0, 4, {2}), 4);
  log.Want(Taps({2}));
  EXPECT_EQ(log.Request().first_position, 4);
  log.Want(Taps({3}));
  EXPECT_EQ(log.Request().first_position, 0);
  log.Add(Rows(4, 6, {2, 3}), 6);
  EXPECT_EQ(log.From(0, Taps({2})), Rows(4, 6, {2}));
}

TEST(FeatureLog, WhatTheTargetLacksIsIgnored) {
  FeatureLog log(kTarget, 1000);
  log.Want(Taps({8}));
  log.Want(Taps({3, 1}));
  log.Want({.taps = {1}, .hidden_size = 2});
  EXPECT_TRUE(log.Request().taps.empty());
  FeatureLog none({}, 1000);  // a verifier that gives no features
  none.Want(Taps({0}));
  EXPECT_TRUE(none.Request().taps.empty());
}

TEST(FeatureLog, RowsThatDoNotFitTheRequestAreIgnored) {
  FeatureLog log(kTarget, 1000);
  log.Want(Taps({2}));
  log.Add(Rows(0, 4, {2}), 4);
  log.Add(Rows(4, 6, {2, 3}), 6);
  log.Add(Rows(4, 6, {2}), 7);
  log.Add(Rows(-1, 6, {2}), 6);
  log.Add({}, 6);
  EXPECT_EQ(log.From(0, Taps({2})), Rows(0, 4, {2}));
}

TEST(FeatureLog, TheOldestRowsGoWhenItIsFull) {
  FeatureLog log(kTarget, 80);
  log.Want(Taps({2}));
  for (int64_t i = 0; i < 100; ++i) {
    log.Add(Rows(i, i + 1, {2}), i + 1);
    EXPECT_LE(log.num_bytes(), 80);
  }
  const FeatureRows left = log.From(0, Taps({2}));
  EXPECT_EQ(left, Rows(left.first_position, 100, {2}));
  EXPECT_GE(left.num_rows(), 35);
}

}  // namespace
}  // namespace espalier::coordinator
