#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/serial_executor.h"
#include "common/speculation/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/engine/draft_engine_fixture.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;

TEST_F(DraftEngineTest, AGuessGivesWay) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {2, 3})).ok());
  const auto lookahead = Propose(Lookahead(1, {2, 3}, {4}));
  const auto other = Propose(Request(2, {}, {5}));
  executor_->RunUntilIdle();
  EXPECT_TRUE((*lookahead)->ok());
  EXPECT_TRUE((*other)->ok());
  ASSERT_EQ(notes_.batches.size(), 3u);
  EXPECT_THAT(notes_.batches[1], ElementsAre(Tokens{5}));
  EXPECT_THAT(notes_.batches[2], ElementsAre(Tokens{2, 3, 4}));
}

TEST_F(DraftEngineTest, AGuessIsDroppedOnceTheSequenceMovesOn) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {2, 3})).ok());
  const auto lookahead = Propose(Lookahead(1, {2, 3}, {4}));
  const Answer next = ProposeNow(Request(1, {2, 3}, {6}));
  EXPECT_EQ((*lookahead)->status().code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->committed_length, 3);
  EXPECT_EQ(notes_.batches.size(), 2u);
}

TEST_F(DraftEngineTest, WhatWaitsIsDraftedAsOneBatch) {
  auto first = Propose(Request(1, {}, {1}));
  auto second = Propose(Request(2, {}, {2}));
  executor_->RunUntilIdle();
  EXPECT_THAT(notes_.batches, ElementsAre(ElementsAre(Tokens{1}, Tokens{2})));
  EXPECT_EQ((**first)->tree.tokens[0], 1);
  EXPECT_EQ((**second)->tree.tokens[0], 2);
}

TEST_F(DraftEngineTest, TwoRequestsOfOneSequenceAreTwoBatches) {
  auto first = Propose(Request(1, {}, {1}));
  auto second = Propose(Request(1, {1}, {2}));
  auto other = Propose(Request(2, {}, {5}));
  executor_->RunUntilIdle();
  EXPECT_THAT(notes_.batches,
              ElementsAre(ElementsAre(Tokens{1}),
                          ElementsAre(Tokens{1, 2}, Tokens{5})));
  EXPECT_TRUE((**first).ok() && (**second).ok() && (**other).ok());
}

TEST_F(DraftEngineTest, ALateRequestStillCommitsButDraftsNothing) {
  auto late = Propose(Request(1, {}, {1, 2}), executor_->Now());
  executor_->RunUntilIdle();
  ASSERT_TRUE((**late).ok());
  EXPECT_EQ((**late)->committed_length, 2);
  EXPECT_EQ((**late)->tree.num_nodes(), 1);
  EXPECT_TRUE(ProposeNow(Request(1, {1, 2}, {3})).ok());
}

TEST_F(DraftEngineTest, OneBadRequestDoesNotHurtItsBatch) {
  auto good = Propose(Request(1, {}, {1}));
  auto stale = Propose(Request(2, {1, 2, 3}, {4}));
  executor_->RunUntilIdle();
  EXPECT_TRUE((**good).ok());
  EXPECT_EQ(HeldLength((**stale).status()), 0);
}

TEST_F(DraftEngineTest, ASequencePushedOutByItsOwnBatchIsAnsweredSo) {
  auto first = Propose(Request(1, {}, Tokens(15, 1)));
  auto second = Propose(Request(2, {}, Tokens(15, 2)));
  executor_->RunUntilIdle();
  EXPECT_EQ((**first).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE((**second).ok());
  EXPECT_EQ(metrics_.sessions_open.Value(), 1);
}

TEST_F(DraftEngineTest, TheQueueIsBounded) {
  std::vector<std::shared_ptr<std::optional<Answer>>> answers;
  for (uint64_t id = 1; id <= 4; ++id) {
    answers.push_back(Propose(Request(id, {}, {1})));
  }
  ASSERT_TRUE(answers[3]->has_value());
  EXPECT_EQ((**answers[3]).status().code(),
            absl::StatusCode::kResourceExhausted);
  executor_->RunUntilIdle();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((**answers[i]).ok());
}

TEST_F(DraftEngineTest, EndSequenceForgetsAndDropsWhatWaits) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {1})).ok());
  auto waiting = Propose(Request(1, {1}, {2}));
  auto other = Propose(Request(2, {}, {5}));
  engine_->EndSequence({1, 1});
  ASSERT_TRUE(waiting->has_value());
  EXPECT_EQ((**waiting).status().code(), absl::StatusCode::kCancelled);
  executor_->RunUntilIdle();
  EXPECT_TRUE((**other).ok());
  EXPECT_THAT(notes_.forgotten, ElementsAre(1));
  EXPECT_EQ(metrics_.sessions_open.Value(), 1);
  engine_->EndSequence({1, 99});
  executor_->RunUntilIdle();
}

TEST_F(DraftEngineTest, IdleSequencesAreSweptWithoutTraffic) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {1})).ok());
  executor_->AdvanceBy(absl::Seconds(30));
  ASSERT_TRUE(ProposeNow(Request(2, {}, {1})).ok());
  executor_->AdvanceBy(absl::Seconds(30));
  EXPECT_EQ(metrics_.sessions_open.Value(), 1);
  executor_->AdvanceBy(absl::Seconds(60));
  EXPECT_EQ(metrics_.sessions_open.Value(), 0);
  EXPECT_THAT(notes_.forgotten, ElementsAre(1, 2));
}

TEST_F(DraftEngineTest, WhatStillWaitsAtTheEndIsAnswered) {
  auto waiting = Propose(Request(1, {}, {1}));
  engine_.reset();
  ASSERT_TRUE(waiting->has_value());
  EXPECT_EQ((**waiting).status().code(), absl::StatusCode::kUnavailable);
}

// Real threads, for the sanitizers: every request is answered exactly once.
TEST(DraftEngineThreadsTest, AnswersEveryRequestFromManyThreads) {
  auto registry = std::make_shared<prometheus::Registry>();
  RecordingDrafter::Notes notes;
  std::atomic<int> answers = 0;
  {
    DraftEngine engine({.name = "echo", .vocab_size = 10},
                       std::make_unique<RecordingDrafter>(notes),
                       std::make_unique<SerialExecutor>("draft"),
                       MakeDrafterMetrics(*registry, "echo"));
    std::vector<std::thread> callers;
    for (uint64_t caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&engine, &answers, caller] {
        for (uint64_t i = 0; i < 50; ++i) {
          const SequenceId id = {caller, i};
          engine.Propose({.update = {.sequence = id,
                                     .prefix_hash = kEmptyPrefixHash,
                                     .new_tokens = {1}},
                          .budget = {.max_nodes = 2, .max_depth = 2}},
                         absl::InfiniteFuture(), nullptr,
                         [&answers](Answer) { ++answers; });
          if (i % 3 == 0) engine.EndSequence(id);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(answers, 200);
}

TEST_F(DraftEngineTest, WhatASlowDrafterReportsComesBeforeTheAnswer) {
  notes_.reports = 2;
  notes_.while_drafting = [this] { executor_->MoveClock(absl::Seconds(1)); };
  const auto one = Propose(Request(1, {}, {5, 6}));
  const auto two = Propose(Request(2, {}, {8}));
  executor_->RunUntilIdle();
  ASSERT_TRUE(one->has_value() && two->has_value());
  ASSERT_EQ(parts_.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    const bool first = i < 2;
    EXPECT_EQ(parts_[i].round, first ? 41u : 42u);
    EXPECT_EQ(parts_[i].committed_length, first ? 2 : 1);
    EXPECT_EQ(parts_[i].tree.tokens[0], first ? 6 : 8);
    EXPECT_EQ(parts_[i].tree.num_nodes(), 1 + i % 2);
  }
  EXPECT_EQ((*one)->value().tree.num_nodes(), 4);
}

TEST_F(DraftEngineTest, AFastDrafterOnlyAnswers) {
  notes_.reports = 2;
  const auto answer = Propose(Request(1, {}, {5, 6}));
  executor_->RunUntilIdle();
  EXPECT_TRUE(answer->has_value());
  EXPECT_TRUE(parts_.empty());
}

TEST_F(DraftEngineTest, ADrafterIsNotAskedForReportsThatNobodySees) {
  notes_.reports = 2;
  bool answered = false;
  engine_->Propose(Request(1, {}, {5}), absl::InfiniteFuture(), nullptr,
                   [&](Answer answer) { answered = answer.ok(); });
  executor_->RunUntilIdle();
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace espalier::drafter
