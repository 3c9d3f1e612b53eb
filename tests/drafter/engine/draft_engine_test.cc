#include <limits>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/engine/draft_engine_fixture.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST_F(DraftEngineTest, BudgetsAreCutDownToTheDraftersLimits) {
  ProposeRequest request = Request(1, {}, {1});
  request.budget = {.max_nodes = 1000, .max_depth = 1000};
  EXPECT_EQ(ProposeNow(request)->tree.num_nodes(), 1 + 4);
  request.budget = {.max_nodes = 0, .max_depth = 3};
  EXPECT_EQ(ProposeNow(request)->tree.num_nodes(), 1);
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

TEST_F(DraftEngineTest, DrafterErrorsBecomeInternalAndNameTheDrafter) {
  notes_.error = absl::InvalidArgumentError("head is missing");
  const absl::Status status = ProposeNow(Request(1, {}, {1})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::AllOf(HasSubstr("echo"), HasSubstr("head is missing")));
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

TEST_F(DraftEngineTest, CountsNodesAndSessions) {
  ASSERT_TRUE(ProposeNow(Request(1, {}, {1})).ok());
  ASSERT_TRUE(ProposeNow(Request(2, {}, {1})).ok());
  EXPECT_EQ(metrics_.proposed_nodes.Value(), 6);
  EXPECT_EQ(metrics_.sessions_open.Value(), 2);
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
