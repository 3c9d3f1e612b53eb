// Features that come with results are those of the committed text, each
// position once, whatever happened on the way.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bf16.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"
#include "tests/verifier/storing_model.h"

namespace espalier::verifier {
namespace {

const std::vector<int32_t> kTaps = {0, 2, 4};

FeatureRows StatesOf(const Text& text, int64_t first, int64_t end,
                     const std::vector<int32_t>& taps = kTaps) {
  FeatureRows rows = {.first_position = first,
                      .width = static_cast<int64_t>(taps.size()) *
                               ScriptedLanguageModel::kHiddenSize};
  for (int64_t i = first; i < end; ++i) {
    for (int32_t tap : taps) {
      for (float value : ScriptedLanguageModel::StateAt(
               tap, absl::MakeConstSpan(text).first(i + 1))) {
        rows.data.push_back(FloatToBf16(value));
      }
    }
  }
  return rows;
}

class VerifyEngineFeaturesTest : public ::testing::Test {
 protected:
  // Returns the next `right` tokens, and beside each of them a wrong one.
  TokenTree Tree(const Text& text, int64_t right) const {
    const Text plain = PlainText(harness_.script, text, {},
                                 static_cast<int64_t>(text.size()) + right);
    TokenTree tree = TokenTree::RootOnly(text.back());
    int32_t node = 0;
    for (size_t i = text.size(); i < plain.size(); ++i) {
      tree.Add(node, (plain[i] + 1) % 40, -1.0f * static_cast<float>(i));
      tree.Add(node, plain[i], -1.0f * static_cast<float>(i));
      node = static_cast<int32_t>(tree.num_nodes()) - 1;
    }
    return tree;
  }
  VerifyRequest Request(const Client& client, int64_t right,
                        int64_t first_position) const {
    VerifyRequest request = client.Request(Tree(client.text, right));
    request.features = {.taps = kTaps, .first_position = first_position};
    return request;
  }

  Client client_ = {.id = {1, 1}, .text = {5, 6, 7, 8}};
  EngineHarness harness_;
};

TEST_F(VerifyEngineFeaturesTest, StoresThoseOfEveryCommittedPosition) {
  StoringEngine storing;
  EXPECT_EQ(storing.engine.engine->info().ring.id, StoringModel::kRingId);
  int64_t next = 0;
  for (int64_t right : {2, 0, 3}) {
    VerifyRequest request = Request(client_, right, /*first_position=*/0);
    request.features = {.store = {{0, 4}, {1}}};
    const auto verify_result = storing.engine.Ask(request);
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    EXPECT_TRUE(verify_result->features.empty());
    client_.Commit(*verify_result);
    const int64_t end = static_cast<int64_t>(client_.text.size()) - 1;
    EXPECT_EQ(std::exchange(storing.notes.stored, {}),
              (std::vector<StoringModel::Rows>{{{0, 4}, next, end},
                                               {{1}, next, end}}));
    EXPECT_EQ(verify_result->stored,
              (StoredSegments{.ring_id = StoringModel::kRingId,
                              .contracts = {{{next, end - next, 1}},
                                            {{next, end - next, 2}}}}));
    EXPECT_EQ(storing.notes.taps.back(), (std::vector<int32_t>{0, 1, 4}));
    next = end;
  }
}

// A lost answer is asked for again.
TEST_F(VerifyEngineFeaturesTest, ARepeatedRoundSaysAgainWhatItStored) {
  StoringEngine storing;
  VerifyRequest request = Request(client_, 1, 0);
  request.features = {.store = {{1}}};
  const auto first = storing.engine.Ask(request);
  const auto again = storing.engine.Ask(request);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(first->stored.contracts[0].size(), 1u);
  EXPECT_EQ(again->stored, first->stored);
  EXPECT_EQ(storing.notes.stored.size(), 1u);
}

// In a mixed cluster, returned features have their own taps.
TEST_F(VerifyEngineFeaturesTest, ReturnsSomeAndStoresOthers) {
  StoringEngine storing;
  int64_t next = 0;
  for (int64_t right : {2, 0, 3}) {
    VerifyRequest request = Request(client_, right, next);
    request.features.store = {{1, 2}};
    const auto verify_result = storing.engine.Ask(request);
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    client_.Commit(*verify_result);
    const int64_t end = static_cast<int64_t>(client_.text.size()) - 1;
    EXPECT_EQ(verify_result->features, StatesOf(client_.text, next, end));
    EXPECT_EQ(storing.notes.stored.back(),
              (StoringModel::Rows{{1, 2}, next, end}));
    EXPECT_EQ(storing.notes.taps.back(), (std::vector<int32_t>{0, 1, 2, 4}));
    next = end;
  }
}

TEST_F(VerifyEngineFeaturesTest, StoresAgainWhatAnotherTextReplaces) {
  StoringEngine storing;
  VerifyRequest request = Request(client_, 0, 0);
  request.features = {.store = {{1}}};
  const auto verify_result = storing.engine.Ask(request);
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  Client other = client_;
  other.Commit(*verify_result);
  other.held = 2;
  other.text = {5, 6, 9, 9, 9};
  request = Request(other, 0, 0);
  request.features = {.store = {{1}}};
  const auto replaced = storing.engine.Ask(request);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(storing.notes.stored.back(), (StoringModel::Rows{{1}, 2, 5}));
  EXPECT_EQ(replaced->stored.contracts[0],
            (std::vector<RingSegment>{{2, 3, 2}}));
}

// The first request failed after it had stored some.
TEST_F(VerifyEngineFeaturesTest, SegmentsOfOtherTapsAreNotContinued) {
  for (TokenId i = 0; i < 120; ++i) client_.text.push_back(i % 37);
  auto scripted =
      std::make_unique<ScriptedLanguageModel>(ScriptedLanguageModel::Options());
  int64_t passes = 0;
  scripted->set_pass_hook([&](absl::Span<const SequenceRows>) {
    return ++passes == 3 ? absl::InternalError("out of order")
                         : absl::OkStatus();
  });
  StoringModel::Notes notes;
  EngineUnderTest engine(
      std::make_unique<StoringModel>(std::move(scripted), &notes), {});
  VerifyRequest request = client_.Request();
  request.features = {.store = {{1}}};
  EXPECT_FALSE(engine.Ask(request).ok());
  EXPECT_FALSE(notes.stored.empty());
  client_.round = 2;
  request = client_.Request();
  request.features = {.store = {{2}}};
  const auto verify_result = engine.Ask(request);
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  ASSERT_EQ(verify_result->stored.contracts.size(), 1u);
  EXPECT_FALSE(verify_result->stored.contracts[0].empty());
  for (const RingSegment& segment : verify_result->stored.contracts[0]) {
    EXPECT_EQ(notes.stored[segment.offset - 1].taps, (std::vector<int32_t>{2}));
  }
}

// A coordinator may have asked another process that was here before.
TEST_F(VerifyEngineFeaturesTest, AVerifierWithoutARingStoresNothing) {
  VerifyRequest request = Request(client_, 1, 0);
  request.features.store = {{1, 2}};
  const auto verify_result = harness_.Ask(request);
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  EXPECT_EQ(verify_result->stored, StoredSegments());
  client_.Commit(*verify_result);
  EXPECT_EQ(verify_result->features,
            StatesOf(client_.text, 0, std::ssize(client_.text) - 1));
}

TEST_F(VerifyEngineFeaturesTest, RefusesTapsToStoreThatTheModelLacks) {
  const std::vector<std::vector<std::vector<int32_t>>> bad = {
      {{1, 99}}, {{}}, std::vector<std::vector<int32_t>>(65, {1})};
  for (const auto& store : bad) {
    VerifyRequest request = Request(client_, 0, 0);
    request.features.store = store;
    const absl::Status refused = harness_.Ask(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("features.store"), std::string::npos);
  }
}

TEST_F(VerifyEngineFeaturesTest, EveryCommittedPositionComesOnce) {
  int64_t next = 0;
  for (int64_t right : {2, 0, 3, 1}) {
    const auto verify_result = harness_.Ask(Request(client_, right, next));
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    ASSERT_EQ(static_cast<int64_t>(verify_result->path.size()), right);
    client_.Commit(*verify_result);
    const int64_t end = static_cast<int64_t>(client_.text.size()) - 1;
    EXPECT_EQ(verify_result->features, StatesOf(client_.text, next, end));
    next = end;
  }
}

// Each position comes once, with the first request that does not defer.
TEST_F(VerifyEngineFeaturesTest, DeferredOnesComeLater) {
  int64_t next = 0;
  for (const bool deferred : {true, true, false, true, false}) {
    VerifyRequest request = Request(client_, /*right=*/1, next);
    request.features.deferred = deferred;
    const auto verify_result = harness_.Ask(request);
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    client_.Commit(*verify_result);
    const int64_t end = static_cast<int64_t>(client_.text.size()) - 1;
    if (deferred) {
      EXPECT_TRUE(verify_result->features.empty());
    } else {
      EXPECT_EQ(verify_result->features, StatesOf(client_.text, next, end));
      next = end;
    }
  }
}

TEST_F(VerifyEngineFeaturesTest, NobodyAsksNothingComes) {
  std::vector<size_t> sizes;
  harness_.model->set_pass_hook([&](absl::Span<const SequenceRows> batch) {
    for (const SequenceRows& rows : batch) {
      sizes.push_back(rows.taps.size());
    }
    return absl::OkStatus();
  });
  const auto verify_result = harness_.Ask(client_.Request());
  ASSERT_TRUE(verify_result.ok());
  EXPECT_TRUE(verify_result->features.empty());
  EXPECT_EQ(sizes, std::vector<size_t>{0});
}

TEST_F(VerifyEngineFeaturesTest, ARepeatedRoundBringsThemAgain) {
  const VerifyRequest request = Request(client_, 2, 0);
  const auto first = harness_.Ask(request), again = harness_.Ask(request);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_FALSE(first->features.empty());
  EXPECT_EQ(again->features, first->features);
}

TEST_F(VerifyEngineFeaturesTest, LongPromptsAreCollectedOverTheirPasses) {
  for (TokenId i = 0; i < 120; ++i) client_.text.push_back(i % 37);
  const auto verify_result = harness_.Ask(Request(client_, 2, 0));
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  EXPECT_GT(harness_.model->num_passes(), 2);
  client_.Commit(*verify_result);
  EXPECT_EQ(
      verify_result->features,
      StatesOf(client_.text, 0, static_cast<int64_t>(client_.text.size()) - 1));
}

// Features that the first request computed are not lost with it.
TEST_F(VerifyEngineFeaturesTest, ARequestTakesOverWhatAnotherHasBegun) {
  for (TokenId i = 0; i < 120; ++i) client_.text.push_back(i % 37);
  int64_t passes = 0;
  harness_.model->set_pass_hook([&](absl::Span<const SequenceRows>) {
    return ++passes == 3 ? absl::InternalError("out of order")
                         : absl::OkStatus();
  });
  EXPECT_FALSE(harness_.Ask(Request(client_, 1, 0)).ok());
  client_.round = 2;
  const auto verify_result = harness_.Ask(Request(client_, 1, 0));
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  client_.Commit(*verify_result);
  EXPECT_EQ(
      verify_result->features,
      StatesOf(client_.text, 0, static_cast<int64_t>(client_.text.size()) - 1));
}

// What it has begun is of other points.
TEST_F(VerifyEngineFeaturesTest, ARequestForOtherPointsBeginsAnew) {
  for (TokenId i = 0; i < 120; ++i) client_.text.push_back(i % 37);
  int64_t passes = 0;
  harness_.model->set_pass_hook([&](absl::Span<const SequenceRows>) {
    return ++passes == 3 ? absl::InternalError("out of order")
                         : absl::OkStatus();
  });
  EXPECT_FALSE(harness_.Ask(Request(client_, 1, 0)).ok());
  client_.round = 2;
  VerifyRequest other = client_.Request();
  other.features = {.taps = {1}};
  const auto verify_result = harness_.Ask(other);
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  client_.Commit(*verify_result);
  const int64_t first = verify_result->features.first_position;
  EXPECT_GT(first, 0);
  EXPECT_EQ(verify_result->features,
            StatesOf(client_.text, first,
                     static_cast<int64_t>(client_.text.size()) - 1, {1}));
}

TEST_F(VerifyEngineFeaturesTest, WhatTheSenderHasIsLeftOut) {
  const auto verify_result = harness_.Ask(Request(client_, 1, /*first=*/2));
  ASSERT_TRUE(verify_result.ok());
  client_.Commit(*verify_result);
  EXPECT_EQ(verify_result->features, StatesOf(client_.text, 2, 5));
}

TEST_F(VerifyEngineFeaturesTest, WhoAsksLateGetsThemFromThereOn) {
  auto verify_result = harness_.Ask(client_.Request());
  ASSERT_TRUE(verify_result.ok());
  client_.Commit(*verify_result);
  verify_result = harness_.Ask(Request(client_, 1, 0));
  ASSERT_TRUE(verify_result.ok());
  client_.Commit(*verify_result);
  EXPECT_EQ(verify_result->features, StatesOf(client_.text, 4, 6));

  VerifyRequest other = client_.Request();
  other.features = {.taps = {1}};
  verify_result = harness_.Ask(other);
  ASSERT_TRUE(verify_result.ok());
  client_.Commit(*verify_result);
  EXPECT_EQ(verify_result->features, StatesOf(client_.text, 6, 7, {1}));
}

TEST_F(VerifyEngineFeaturesTest, ASequenceThatGoesBackComesWithTheNewText) {
  auto verify_result = harness_.Ask(Request(client_, 2, 0));
  ASSERT_TRUE(verify_result.ok());
  Client other = client_;
  other.round = 2;
  other.held = 2;
  other.text = {5, 6, 9, 9, 9};
  verify_result = harness_.Ask(Request(other, 1, 0));
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  other.Commit(*verify_result);
  EXPECT_EQ(verify_result->features, StatesOf(other.text, 2, 6));
}

TEST_F(VerifyEngineFeaturesTest, PointsThatTheTargetLacksAreRefused) {
  for (const std::vector<int32_t>& taps :
       {std::vector<int32_t>{5}, {-1}, {2, 1}, {1, 1}}) {
    VerifyRequest request = client_.Request();
    request.features.taps = taps;
    EXPECT_EQ(harness_.Ask(request).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  VerifyRequest request = Request(client_, 0, -1);
  EXPECT_EQ(harness_.Ask(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace espalier::verifier
