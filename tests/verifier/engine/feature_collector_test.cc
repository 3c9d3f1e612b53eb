#include "verifier/engine/feature_collector.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scripted_language_model.h"
#include "tests/verifier/storing_model.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kHidden = ScriptedLanguageModel::kHiddenSize;

// Appends rows for the next `count` positions; a value is 10 * its position +
// its tap.
void Collect(Session& session, int64_t count) {
  FeatureRows& rows = session.features;
  for (int64_t i = 0; i < count; ++i) {
    const auto position = static_cast<uint16_t>(rows.end_position());
    for (int32_t tap : session.taps) {
      rows.data.insert(rows.data.end(), kHidden,
                       static_cast<uint16_t>(10 * position + tap));
    }
  }
}

class FeatureCollectorTest : public ::testing::Test {
 protected:
  StoringModel::Notes notes_;
  StoringModel model_{
      std::make_unique<ScriptedLanguageModel>(ScriptedLanguageModel::Options{}),
      &notes_};
  FeatureCollector collector_{model_, false};
  Session session_{.cache = model_.NewSequence()};
};

TEST_F(FeatureCollectorTest, CollectsForDraftersOrForOthersWhoShareTheText) {
  EXPECT_FALSE(collector_.Collects(session_));
  collector_.Want({.store = {{0, 1}}}, session_);
  EXPECT_FALSE(collector_.Collects(session_));  // they stay on the device
  EXPECT_TRUE(FeatureCollector(model_, true).Collects(session_));
  collector_.Want({.taps = {0}}, session_);
  EXPECT_TRUE(collector_.Collects(session_));
}

TEST_F(FeatureCollectorTest, ReturnsTheWantedTapsFromTheFirstWantedPosition) {
  collector_.Want({.taps = {2}, .first_position = 1, .store = {{0, 2}}},
                  session_);
  EXPECT_THAT(session_.taps, ElementsAre(0, 2));
  Collect(session_, 2);
  const FeatureRows rows = collector_.Take(session_);
  EXPECT_EQ(rows.first_position, 1);
  EXPECT_THAT(rows.data, ElementsAre(12, 12, 12, 12));
  EXPECT_TRUE(session_.features.empty());
}

TEST_F(FeatureCollectorTest, WhatWasNotReturnedIsContinued) {
  collector_.Want({.taps = {1}}, session_);
  Collect(session_, 0);
  session_.features.first_position = 0;
  collector_.Want({.taps = {1}}, session_);
  Collect(session_, 1);
  EXPECT_THAT(collector_.Take(session_).data, ElementsAre(1, 1, 1, 1));
}

TEST_F(FeatureCollectorTest, OtherTapsBeginAnew) {
  collector_.Want({.taps = {1}}, session_);
  Collect(session_, 1);
  collector_.Want({.taps = {2}}, session_);
  EXPECT_TRUE(session_.features.empty());
  EXPECT_THAT(session_.taps, ElementsAre(2));
}

TEST_F(FeatureCollectorTest, SegmentsOfARingFollowTheirContract) {
  collector_.Want({.store = {{0, 1}, {2}}}, session_);
  session_.stored[0].segments = {{0, 3, 7}};
  collector_.Want({.store = {{0, 1}, {1}}}, session_);
  const StoredSegments taken = collector_.TakeStored(session_);
  EXPECT_EQ(taken.ring_id, StoringModel::kRingId);
  ASSERT_EQ(taken.contracts.size(), 2);
  EXPECT_EQ(taken.contracts[0].size(), 1);
  EXPECT_THAT(taken.contracts[1], IsEmpty());
  EXPECT_THAT(session_.stored[0].segments, IsEmpty());
}

TEST(RinglessFeatureCollectorTest, StoresNothingWithoutARing) {
  ScriptedLanguageModel model({});
  Session session = {.cache = model.NewSequence()};
  FeatureCollector(model, false).Want({.store = {{0, 1}}}, session);
  EXPECT_THAT(session.stored, IsEmpty());
  EXPECT_THAT(session.taps, IsEmpty());
}

}  // namespace
}  // namespace espalier::verifier
