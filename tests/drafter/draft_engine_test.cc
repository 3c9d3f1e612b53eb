#include "drafter/engine/draft_engine.h"

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/serial_executor.h"
#include "common/spec/prefix_hash.h"
#include "common/spec/stale_base.h"
#include "drafter/engine/host_feature_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tokens = std::vector<TokenId>;
using Answer = absl::StatusOr<Proposal>;

// Drafts a chain of sevens of the budget's depth, and records its calls.
class RecordingDrafter final : public Drafter {
 public:
  struct Notes {
    std::vector<std::vector<Tokens>> batches;
    std::vector<FeatureRows> features;  // of every view
    std::vector<uint64_t> forgotten;
    absl::Status error;
    int64_t trees_left_out = 0;
    int64_t reports = 0;  // of trees with 0, 1, ... nodes, before the answer
    absl::AnyInvocable<void()> while_drafting = [] {};
    // Before each of so many levels.
    absl::AnyInvocable<void(int)> level;
    int num_levels = 0;
  };

  explicit RecordingDrafter(Notes& notes) : notes_(notes) {}

  FeatureStore* features() override { return &features_; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    notes_.while_drafting();
    for (int level = 0; level < notes_.num_levels; ++level) {
      notes_.level(level);
      for (const SequenceView& view : batch) view.level_done();
    }
    std::vector<TokenTree> trees;
    std::vector<Tokens> seen;
    for (const SequenceView& view : batch) {
      seen.emplace_back(view.tokens.begin(), view.tokens.end());
      const auto rows = features_.Rows(view.id, view.features);
      notes_.features.push_back({.first_position = view.features.begin,
                                 .width = features_.contract().width(),
                                 .data = {rows.begin(), rows.end()}});
      seen.back().insert(seen.back().end(), view.lookahead.begin(),
                         view.lookahead.end());
      TokenTree tree = TokenTree::RootOnly(view.root());
      const int64_t nodes =
          std::min(view.budget.max_nodes, view.budget.max_depth);
      for (int32_t i = 0; i < nodes; ++i) {
        if (i < notes_.reports && view.report) view.report(tree);
        tree.Add(i, 7, 0);
      }
      trees.push_back(std::move(tree));
    }
    notes_.batches.push_back(std::move(seen));
    if (!notes_.error.ok()) return notes_.error;
    trees.resize(trees.size() - notes_.trees_left_out);
    return trees;
  }

  void Forget(SequenceId id) override { notes_.forgotten.push_back(id.number); }

 private:
  Notes& notes_;
  HostFeatureStore features_{{.taps = {1, 3}, .hidden_size = 1}};
};

class DraftEngineTest : public ::testing::Test {
 protected:
  DraftEngineTest() {
    auto executor = std::make_unique<FakeExecutor>();
    executor_ = executor.get();
    engine_ = std::make_unique<DraftEngine>(
        DraftEngine::Options{
            .name = "echo",
            .vocab_size = 10,
            .max_nodes = 6,
            .max_depth = 4,
            .supports_lookahead = true,
            .store = {.max_sequences = 3,
                      .max_tokens = 20,
                      .max_idle = absl::Seconds(60)},
            .on_device_lost = [this](const absl::Status&) { ++losses_; }},
        std::make_unique<RecordingDrafter>(notes_), std::move(executor),
        metrics_);
  }

  static ProposeRequest Request(uint64_t number, const Tokens& base,
                                const Tokens& added) {
    return {.update = {.sequence = {1, number},
                       .round = 40 + number,
                       .base_length = static_cast<int64_t>(base.size()),
                       .prefix_hash = PrefixHash(base),
                       .new_tokens = added},
            .budget = {.max_nodes = 3, .max_depth = 3}};
  }

  static ProposeRequest Lookahead(uint64_t number, const Tokens& base,
                                  const Tokens& lookahead) {
    ProposeRequest request = Request(number, base, {});
    request.lookahead = lookahead;
    return request;
  }

  // Queues a request; the answer is stored in the returned object.
  std::shared_ptr<std::optional<Answer>> Propose(
      ProposeRequest request, absl::Time deadline = absl::InfiniteFuture()) {
    auto answer = std::make_shared<std::optional<Answer>>();
    engine_->Propose(
        std::move(request), deadline,
        [this, answer](Proposal part) {
          EXPECT_FALSE(answer->has_value()) << "a part after the answer";
          parts_.push_back(std::move(part));
        },
        [answer](Answer given) {
          EXPECT_FALSE(answer->has_value()) << "answered twice";
          *answer = std::move(given);
        });
    return answer;
  }

  Answer ProposeNow(ProposeRequest request) {
    auto answer = Propose(std::move(request));
    executor_->RunUntilIdle();
    EXPECT_TRUE(answer->has_value());
    return **answer;
  }

  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
  DrafterMetrics metrics_ = MakeDrafterMetrics(*registry_, "echo");
  RecordingDrafter::Notes notes_;
  std::vector<Proposal> parts_;  // of all requests
  FakeExecutor* executor_ = nullptr;
  int losses_ = 0;  // of the device
  std::unique_ptr<DraftEngine> engine_;
};

TEST_F(DraftEngineTest, DraftsBehindAGuessWithoutCommittingIt) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {2, 3})).ok());
  const Answer ahead = ProposeNow(Lookahead(1, {2, 3}, {4, 5}));
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  EXPECT_EQ(ahead->committed_length, 2);
  EXPECT_THAT(ahead->tree.tokens, ElementsAre(5, 7, 7, 7));
  const Answer next = ProposeNow(Request(1, {2, 3}, {6}));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(notes_.batches.back(), ElementsAre(Tokens{2, 3, 6}));
  EXPECT_THAT(notes_.forgotten, IsEmpty());
}

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

TEST_F(DraftEngineTest, AGuessThatMakesNoSenseIsRefused) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {2})).ok());
  const Answer outside = ProposeNow(Lookahead(1, {2}, {4, 10}));
  EXPECT_EQ(outside.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(outside.status().message()),
              HasSubstr("lookahead_tokens: token 10"));
  const Answer longer = ProposeNow(Lookahead(1, {2}, {1, 1, 1, 1, 1}));
  EXPECT_EQ(longer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(longer.status().message()),
              HasSubstr("lookahead_tokens: 5, the drafter takes 4"));
}

TEST_F(DraftEngineTest, AnswersATreeForTheCommittedTokens) {
  const Answer first = ProposeNow(Request(1, {}, {2, 3}));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->round, 41u);
  EXPECT_EQ(first->committed_length, 2);
  EXPECT_THAT(first->tree.tokens, ElementsAre(3, 7, 7, 7));
  const Answer second = ProposeNow(Request(1, {2, 3}, {7, 4}));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->committed_length, 4);
  EXPECT_THAT(notes_.batches, ElementsAre(ElementsAre(Tokens{2, 3}),
                                          ElementsAre(Tokens{2, 3, 7, 4})));
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

TEST_F(DraftEngineTest, BudgetsAreCutDownToTheDraftersLimits) {
  ProposeRequest request = Request(1, {}, {1});
  request.budget = {.max_nodes = 1000, .max_depth = 1000};
  EXPECT_EQ(ProposeNow(request)->tree.num_nodes(), 1 + 4);
  request.budget = {.max_nodes = 0, .max_depth = 3};
  EXPECT_EQ(ProposeNow(request)->tree.num_nodes(), 1);
}

TEST_F(DraftEngineTest, ALateRequestStillCommitsButDraftsNothing) {
  auto late = Propose(Request(1, {}, {1, 2}), executor_->Now());
  executor_->RunUntilIdle();
  ASSERT_TRUE((**late).ok());
  EXPECT_EQ((**late)->committed_length, 2);
  EXPECT_EQ((**late)->tree.num_nodes(), 1);
  EXPECT_TRUE(ProposeNow(Request(1, {1, 2}, {3})).ok());
}

TEST_F(DraftEngineTest, ReportsTheTimeInsideTheDrafter) {
  notes_.while_drafting = [&] { executor_->AdvanceBy(absl::Milliseconds(3)); };
  const Answer answer = ProposeNow(Request(1, {}, {1}));
  EXPECT_EQ(answer->compute_time, absl::Milliseconds(3));
  const auto histogram = metrics_.compute_seconds.Collect().histogram;
  EXPECT_EQ(histogram.sample_count, 1u);
  EXPECT_NEAR(histogram.sample_sum, 0.003, 1e-9);
}

TEST_F(DraftEngineTest, ReportsTheTimeOfEachLevel) {
  notes_.num_levels = 3;
  notes_.level = [&](int level) {
    executor_->AdvanceBy(absl::Milliseconds(level == 0 ? 5 : level));
  };
  const Answer answer = ProposeNow(Request(1, {}, {1}));
  EXPECT_THAT(answer->level_times,
              ElementsAre(absl::Milliseconds(5), absl::Milliseconds(1),
                          absl::Milliseconds(2)));
  notes_.num_levels = 0;
  EXPECT_THAT(ProposeNow(Request(1, {1}, {2}))->level_times, IsEmpty());
}

TEST_F(DraftEngineTest, BadRequestsAreRefusedAndNameTheField) {
  const auto refused = [&](ProposeRequest request, const char* field) {
    const Answer answer = ProposeNow(std::move(request));
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr(field));
  };
  refused(Request(1, {}, {1, 10}), "new_tokens: token 10");
  refused(Request(1, {}, {-1}), "new_tokens: token -1");
  refused(Request(1, {}, {}), "new_tokens");
  for (float bad : {-1.0f, 101.0f, std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    ProposeRequest request = Request(1, {}, {1});
    request.update.sampling.temperature = bad;
    refused(request, "sampling.temperature");
  }
  ProposeRequest request = Request(1, {}, {1});
  request.budget.max_nodes = -1;
  refused(request, "max_nodes -1");
  request.budget = {.max_nodes = 1, .max_depth = -2};
  refused(request, "max_depth -2");
  request.budget = {.max_nodes = 1, .max_depth = 1, .least_reach = 1.5f};
  refused(request, "least_reach 1.5");
  EXPECT_THAT(notes_.batches, IsEmpty());
  EXPECT_EQ(metrics_.sessions_open.Value(), 0);
}

TEST_F(DraftEngineTest, OneBadRequestDoesNotHurtItsBatch) {
  auto good = Propose(Request(1, {}, {1}));
  auto stale = Propose(Request(2, {1, 2, 3}, {4}));
  executor_->RunUntilIdle();
  EXPECT_TRUE((**good).ok());
  EXPECT_EQ(HeldLength((**stale).status()), 0);
}

TEST_F(DraftEngineTest, ARollbackMakesTheDrafterForgetBeforeItDrafts) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {1, 2, 3})).ok());
  notes_.while_drafting = [&] {
    EXPECT_THAT(notes_.forgotten, ElementsAre(1));
  };
  ASSERT_TRUE(ProposeNow(Request(1, {1}, {5})).ok());
  EXPECT_THAT(notes_.batches.back(), ElementsAre(Tokens{1, 5}));
}

TEST_F(DraftEngineTest, AReplayGetsTheSameTree) {
  const Answer first = ProposeNow(Request(1, {}, {1, 2}));
  const Answer again = ProposeNow(Request(1, {}, {1, 2}));
  EXPECT_EQ(first->tree.tokens, again->tree.tokens);
  EXPECT_EQ(first->committed_length, again->committed_length);
  EXPECT_THAT(notes_.forgotten, IsEmpty());
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

TEST_F(DraftEngineTest, DrafterErrorsBecomeInternalAndNameTheDrafter) {
  notes_.error = absl::InvalidArgumentError("head is missing");
  const absl::Status status = ProposeNow(Request(1, {}, {1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("echo"), HasSubstr("head is missing")));
  notes_.error = absl::OkStatus();
  notes_.trees_left_out = 1;
  EXPECT_EQ(ProposeNow(Request(1, {1}, {2})).status().code(),
            absl::StatusCode::kInternal);
  notes_.trees_left_out = 0;
  EXPECT_TRUE(ProposeNow(Request(1, {1, 2}, {3})).ok());
}

TEST_F(DraftEngineTest, ALostDeviceIsToldOnce) {
  notes_.error = absl::InternalError("a logit is not finite");
  EXPECT_FALSE(ProposeNow(Request(1, {}, {1})).ok());
  EXPECT_EQ(losses_, 0);
  notes_.error = absl::UnavailableError("the GPU fell off the bus");
  for (uint64_t id : {2, 3}) {
    EXPECT_EQ(ProposeNow(Request(id, {}, {1})).status().code(),
              absl::StatusCode::kInternal);
  }
  EXPECT_EQ(losses_, 1);
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

TEST_F(DraftEngineTest, CountsNodesAndSessions) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {1})).ok());
  ASSERT_TRUE(ProposeNow(Request(2, {}, {1})).ok());
  EXPECT_EQ(metrics_.proposed_nodes.Value(), 6);
  EXPECT_EQ(metrics_.sessions_open.Value(), 2);
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

TEST_F(DraftEngineTest, FeaturesReachTheDrafter) {
  ProposeRequest request = Request(1, {}, {2, 3, 4});
  request.features = {.first_position = 0, .width = 2, .data = {1, 2, 3, 4}};
  ASSERT_TRUE(ProposeNow(request).ok());
  ASSERT_TRUE(ProposeNow(Request(1, {2, 3, 4}, {5})).ok());
  ProposeRequest next = Request(1, {2, 3, 4, 5}, {});
  next.features = {.first_position = 2, .width = 2, .data = {5, 6}};
  ASSERT_TRUE(ProposeNow(next).ok());
  ASSERT_EQ(notes_.features.size(), 3u);
  EXPECT_EQ(notes_.features[1], request.features);
  EXPECT_THAT(notes_.features[2].data, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(DraftEngineTest, FeaturesThatDoNotFitAreRefused) {
  ProposeRequest request = Request(1, {}, {2, 3, 4});
  for (const FeatureRows& rows :
       {FeatureRows{.width = 3, .data = {1, 2, 3}},  // another contract
        FeatureRows{.first_position = 2, .width = 2, .data = {1, 2}},  // root's
        FeatureRows{.first_position = -1, .width = 2, .data = {1, 2}}}) {
    request.features = rows;
    EXPECT_EQ(ProposeNow(request).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(notes_.batches, IsEmpty());
}

}  // namespace
}  // namespace espalier::drafter
