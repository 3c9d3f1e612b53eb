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

class FeatureLogTest : public ::testing::Test {
 protected:
  double Lost() const { return metrics_.features.lost_positions.Value(); }
  double Held() const { return metrics_.features.held_bytes.Value(); }

  prometheus::Registry registry_;
  CoordinatorMetrics metrics_{registry_, "model", {}};
  FeatureBudget ample_{{}, metrics_.features};
};

TEST_F(FeatureLogTest, AsksForWhatAllWantAndGivesEachItsPart) {
  FeatureLog log(kTarget, &ample_);
  EXPECT_TRUE(log.Request(/*needed=*/true, /*length=*/9).taps.empty());
  log.Want(Taps({2, 5}));
  log.Want(Taps({0, 5, 7}));
  EXPECT_THAT(log.Request(/*needed=*/true, /*length=*/9).taps,
              ElementsAre(0, 2, 5, 7));
  log.Add(Rows(0, 4, {0, 2, 5, 7}), 4);
  EXPECT_EQ(log.Request(/*needed=*/true, /*length=*/9).first_position, 4);
  EXPECT_EQ(log.From(0, Taps({2, 5})), Rows(0, 4, {2, 5}));
  EXPECT_EQ(log.From(3, Taps({0, 5, 7})), Rows(3, 4, {0, 5, 7}));
  EXPECT_TRUE(log.From(4, Taps({2, 5})).empty());
  EXPECT_TRUE(log.From(9, Taps({2, 5})).empty());
  EXPECT_TRUE(log.From(0, Taps({3})).empty());
  EXPECT_TRUE(log.From(0, {}).empty());
}

// The positions after the last row are with the verifier.
TEST_F(FeatureLogTest, RowsThatNoDrafterNeedsAreDeferredForAWhile) {
  FeatureLog log(kTarget, &ample_);
  EXPECT_FALSE(log.Request(/*needed=*/false, /*length=*/9).deferred)
      << "no drafter wants any";
  log.Want(Taps({2}));
  EXPECT_TRUE(log.Request(/*needed=*/false, /*length=*/31).deferred);
  EXPECT_TRUE(log.deferred());
  EXPECT_FALSE(log.Request(/*needed=*/true, /*length=*/31).deferred);
  EXPECT_FALSE(log.deferred());
  EXPECT_FALSE(log.Request(/*needed=*/false, /*length=*/32).deferred);
  log.Add(Rows(0, 32, {2}), 32);
  EXPECT_TRUE(log.Request(/*needed=*/false, /*length=*/63).deferred);
  EXPECT_FALSE(log.Request(/*needed=*/false, /*length=*/64).deferred);
}

TEST_F(FeatureLogTest, ANewPointStartsOver) {
  FeatureLog log(kTarget, &ample_);
  log.Want(Taps({2}));
  log.Add(Rows(0, 4, {2}), 4);
  log.Want(Taps({2}));
  EXPECT_EQ(log.Request(/*needed=*/true, /*length=*/9).first_position, 4);
  log.Want(Taps({3}));
  EXPECT_EQ(log.Request(/*needed=*/true, /*length=*/9).first_position, 0);
  log.Add(Rows(4, 6, {2, 3}), 6);
  EXPECT_EQ(log.From(0, Taps({2})), Rows(4, 6, {2}));
}

TEST_F(FeatureLogTest, WhatTheTargetLacksIsIgnored) {
  FeatureLog log(kTarget, &ample_);
  log.Want(Taps({8}));
  log.Want(Taps({3, 1}));
  log.Want({.taps = {1}, .hidden_size = 2});
  EXPECT_TRUE(log.Request(/*needed=*/true, /*length=*/9).taps.empty());
  FeatureLog none({}, &ample_);  // a verifier that gives no features
  none.Want(Taps({0}));
  EXPECT_TRUE(none.Request(/*needed=*/true, /*length=*/9).taps.empty());
}

TEST_F(FeatureLogTest, RowsThatDoNotFitTheRequestAreIgnored) {
  FeatureLog log(kTarget, &ample_);
  log.Want(Taps({2}));
  log.Add(Rows(0, 4, {2}), 4);
  log.Add(Rows(4, 6, {2, 3}), 6);
  log.Add(Rows(4, 6, {2}), 7);
  log.Add(Rows(-1, 6, {2}), 6);
  log.Add({}, 6);
  EXPECT_EQ(log.From(0, Taps({2})), Rows(0, 4, {2}));
}

TEST_F(FeatureLogTest, WhatAllHaveIsKeptUpToTheSessionsLimit) {
  FeatureBudget budget({.session_bytes = 80, .all_bytes = 1000},
                       metrics_.features);
  FeatureLog log(kTarget, &budget);
  log.Want(Taps({2}));
  for (int64_t i = 0; i < 100; ++i) {
    log.Add(Rows(i, i + 1, {2}), i + 1);
    log.Release(i + 1);
    EXPECT_LE(log.num_bytes(), 80);
  }
  const FeatureRows left = log.From(0, Taps({2}));
  EXPECT_EQ(left, Rows(left.first_position, 100, {2}));
  EXPECT_GE(left.num_rows(), 35);
  EXPECT_EQ(Lost(), 0);
}

TEST_F(FeatureLogTest, WhatADrafterLacksStaysAsLongAsThereIsRoom) {
  FeatureBudget budget({.session_bytes = 80, .all_bytes = 400},
                       metrics_.features);
  FeatureLog log(kTarget, &budget);
  log.Want(Taps({2}));
  log.Add(Rows(0, 200, {2}), 200);
  EXPECT_EQ(log.From(0, Taps({2})), Rows(0, 200, {2}));
  log.Release(30);
  EXPECT_EQ(log.From(0, Taps({2})), Rows(30, 200, {2}));
  EXPECT_EQ(Lost(), 0);
  log.Add(Rows(200, 300, {2}), 300);
  const FeatureRows left = log.From(0, Taps({2}));
  EXPECT_EQ(left, Rows(left.first_position, 300, {2}));
  EXPECT_LE(left.num_bytes(), 400);
  EXPECT_EQ(Lost(), left.first_position - 30);
}

TEST_F(FeatureLogTest, SessionsShareTheRoomAndEachHasSome) {
  FeatureBudget budget({.session_bytes = 80, .all_bytes = 400},
                       metrics_.features);
  FeatureLog second(kTarget, &budget);
  second.Want(Taps({2}));
  {
    FeatureLog first(kTarget, &budget);
    first.Want(Taps({2}));
    first.Add(Rows(0, 190, {2}), 190);
    second.Add(Rows(0, 190, {2}), 190);
    EXPECT_EQ(first.num_bytes(), 380);
    EXPECT_LE(second.num_bytes(), 80);
    EXPECT_GE(second.num_bytes(), 60);
    EXPECT_EQ(Held(), first.num_bytes() + second.num_bytes());
  }
  EXPECT_EQ(Held(), second.num_bytes());
  second.Add(Rows(190, 300, {2}), 300);
  EXPECT_EQ(second.From(0, Taps({2})).end_position(), 300);
  EXPECT_GE(second.num_bytes(), 2 * 110);
}

TEST_F(FeatureLogTest, ARequestCarriesNoMoreThanItsLimit) {
  FeatureBudget budget({.all_bytes = 1000, .request_bytes = 45},
                       metrics_.features);
  FeatureLog log(kTarget, &budget);
  log.Want(Taps({2, 3}));
  log.Add(Rows(0, 30, {2, 3}), 30);
  EXPECT_EQ(log.From(0, Taps({2})), Rows(0, 22, {2}));
  EXPECT_EQ(log.From(22, Taps({2})), Rows(22, 30, {2}));
  EXPECT_EQ(log.From(5, Taps({2, 3})), Rows(5, 16, {2, 3}));
}

}  // namespace
}  // namespace espalier::coordinator
