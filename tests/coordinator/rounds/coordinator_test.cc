#include "coordinator/rounds/coordinator.h"

#include <algorithm>
#include <string>

#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CoordinatorTest, SpeculationGivesThePlainTextInFewerSteps) {
  ToyCluster cluster(1);
  const GenerationRequest request = ToyCluster::Request(20);
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.finish_reason, FinishReason::kLength);
  // 8 + 1 tokens at each step, then the remaining ones.
  const SpecStats& spec = seen.report.spec;
  EXPECT_EQ(spec.num_spec_steps, 3);
  EXPECT_EQ(spec.num_draft_tokens, 8 + 8 + 1);
  EXPECT_EQ(spec.num_accepted_draft_tokens, 8 + 8 + 1);
  EXPECT_EQ(spec.num_emitted, 20);
  EXPECT_DOUBLE_EQ(spec.mean_acceptance_length(), 20.0 / 3);
  EXPECT_DOUBLE_EQ(spec.draft_acceptance_rate(), 1.0);
  EXPECT_THAT(spec.acceptance_histogram,
              ElementsAre(0, 1, 0, 0, 0, 0, 0, 0, 2));
  EXPECT_EQ(spec.strategy, "union");
  EXPECT_EQ(spec.rule, "walk");
  EXPECT_EQ(spec.degraded_steps, 0);
  EXPECT_EQ(seen.report.usage.prompt_tokens, 5);
  EXPECT_EQ(seen.report.usage.completion_tokens, 20);
}

TEST(CoordinatorTest, PlainDecodingAsksNoDrafter) {
  ToyCluster cluster(1);
  GenerationRequest request = ToyCluster::Request(5);
  request.speculation.enabled = false;
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.spec.num_spec_steps, 5);
  EXPECT_EQ(seen.report.spec.degraded_steps, 0);
  EXPECT_EQ(seen.report.spec.strategy, "none");
  EXPECT_TRUE(cluster.drafters[0]->requests().empty());
}

TEST(CoordinatorTest, PeersGetEachTokenOnce) {
  ToyCluster cluster(1);
  cluster.Run(ToyCluster::Request(20));
  const auto& verify = cluster.verifier.requests();
  ASSERT_EQ(verify.size(), 3u);
  EXPECT_EQ(verify[0].update.new_tokens.size(), 5u);
  // The verifier commits its own result.
  EXPECT_EQ(verify[1].update.base_length, 5 + 9);
  EXPECT_TRUE(verify[1].update.new_tokens.empty());
  const auto& propose = cluster.drafters[0]->requests();
  ASSERT_EQ(propose.size(), 3u);
  EXPECT_EQ(propose[1].update.base_length, 5);
  EXPECT_EQ(propose[1].update.new_tokens.size(), 9u);
  EXPECT_EQ(propose[2].budget.max_depth, 1);  // two tokens are left
}

TEST(CoordinatorTest, StopTokenEndsTheTextInTheMiddleOfAStep) {
  ToyCluster cluster(1);
  GenerationRequest request = ToyCluster::Request(40);
  const std::vector<TokenId> plain = cluster.PlainText(request);
  request.stop_token_ids = {plain[12]};
  const std::vector<TokenId> expected = cluster.PlainText(request);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, expected);
  EXPECT_EQ(seen.report.finish_reason, FinishReason::kStop);
  EXPECT_EQ(seen.report.matched_stop_token, plain[12]);
  EXPECT_EQ(seen.report.spec.num_emitted,
            static_cast<int64_t>(expected.size()));
}

TEST(CoordinatorTest, EndOfSequenceStopsUnlessIgnored) {
  ToyCluster cluster(1);
  GenerationRequest request = ToyCluster::Request(40);
  cluster.info->eos_token_ids = {cluster.PlainText(request)[3]};
  EXPECT_EQ(cluster.Run(request).report.finish_reason, FinishReason::kLength);
  request.ignore_eos = false;
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.finish_reason, FinishReason::kStop);
}

TEST(CoordinatorTest, TellsTheSharesOfDraftersApart) {
  ToyCluster cluster(3);
  // d1 predicts only the first token, d2 none.
  cluster.drafters[1]->Behave({.corrupt = [](Proposal& proposal) {
    TokenTree& tree = proposal.tree;
    tree.tokens.resize(2);
    tree.parents.resize(2);
    tree.log_probs.resize(2);
  }});
  cluster.drafters[2]->Behave({.corrupt = [](Proposal& proposal) {
    proposal.tree = TokenTree::RootOnly(proposal.tree.tokens[0]);
  }});
  const Seen seen = cluster.Run(ToyCluster::Request(18));
  const auto& drafters = seen.report.spec.drafters;
  ASSERT_EQ(drafters.size(), 3u);
  EXPECT_EQ(drafters[0].name, "d0");
  EXPECT_EQ(drafters[0].proposed, 16);
  EXPECT_EQ(drafters[0].accepted, 16);
  EXPECT_EQ(drafters[0].uniquely_accepted, 14);
  EXPECT_EQ(drafters[1].proposed, 2);
  EXPECT_EQ(drafters[1].accepted, 2);
  EXPECT_EQ(drafters[1].uniquely_accepted, 0);
  EXPECT_EQ(drafters[2].proposed, 0);
  const auto status = cluster.coordinator->Drafters();
  EXPECT_EQ(status[0].accepted_tokens, 16);
  EXPECT_EQ(status[0].uniquely_accepted_tokens, 14);
  EXPECT_TRUE(status[0].up);
}

TEST(CoordinatorTest, AsksOnlyTheChosenDrafters) {
  ToyCluster cluster(2);
  GenerationRequest request = ToyCluster::Request();
  request.speculation.drafters = {"d1"};
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(cluster.drafters[0]->requests().empty());
  EXPECT_EQ(seen.report.spec.drafters[0].name, "d1");
  EXPECT_GT(seen.report.spec.drafters[0].accepted, 0);
}

TEST(CoordinatorTest, ReportsWhereTheTimeWent) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(4)});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10),
                           .corrupt = [](VerifyResult& verify_result) {
                             verify_result.timings.forward =
                                 absl::Milliseconds(7);
                           }});
  const Timing timing = cluster.Run(ToyCluster::Request(18)).report.timing;
  EXPECT_EQ(timing.draft_wait, absl::Milliseconds(2 * 4));
  EXPECT_EQ(timing.verify, absl::Milliseconds(2 * 7));
  EXPECT_EQ(timing.wire, absl::Milliseconds(2 * 3));
  EXPECT_EQ(timing.time_to_first_token, absl::Milliseconds(14));
  EXPECT_EQ(timing.total, absl::Milliseconds(28));
}

TEST(CoordinatorTest, QueuesInOrderAndRefusesBeyondItsRoom) {
  ToyCluster cluster(1, {.max_sessions = 1, .max_queued = 2});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  Seen seen[4];
  for (int i = 0; i < 4; ++i) {
    GenerationRequest request = ToyCluster::Request();
    request.request_id = std::to_string(i);
    cluster.Start(request, &seen[i]);
  }
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(cluster.coordinator->Load().running, 1);
  EXPECT_EQ(cluster.coordinator->Load().queued, 2);
  EXPECT_TRUE(absl::IsResourceExhausted(seen[3].status)) << seen[3].status;
  EXPECT_EQ(RetryAfter(seen[3].status), absl::Seconds(1));
  cluster.executor.AdvanceBy(absl::Minutes(1));
  EXPECT_EQ(seen[0].report.timing.queue, absl::ZeroDuration());
  EXPECT_EQ(seen[1].report.timing.queue, absl::Milliseconds(30));
  EXPECT_EQ(seen[2].report.timing.queue, absl::Milliseconds(60));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(seen[i].status.ok());
  cluster.ExpectNothingOpen();
}

// The first runs; the others wait, each of another priority or time.
TEST(CoordinatorTest, ALowerPriorityWaitsSoManySecondsLonger) {
  ToyCluster cluster(1, {.max_sessions = 1, .max_queued = 9});
  cluster.verifier.Behave({.delay = absl::Seconds(10)});
  struct Waiting {
    int64_t priority;
    int seconds;  // when it arrives
  };
  const std::vector<Waiting> waiting = {{0, 0},  {0, 1}, {5, 1},
                                        {-3, 2}, {0, 5}, {0, 8}};
  std::vector<Seen> seen(waiting.size());
  for (size_t i = 0; i < waiting.size(); ++i) {
    GenerationRequest request = ToyCluster::Request(1);
    request.request_id = std::to_string(i);
    request.priority = waiting[i].priority;
    const int before = i == 0 ? 0 : waiting[i - 1].seconds;
    cluster.executor.AdvanceBy(absl::Seconds(waiting[i].seconds - before));
    cluster.Start(request, &seen[i]);
  }
  cluster.executor.AdvanceBy(absl::Minutes(9));
  std::vector<size_t> by_start = {0, 1, 2, 3, 4, 5};
  std::sort(by_start.begin(), by_start.end(), [&](size_t a, size_t b) {
    const auto start = [&](size_t i) {
      return absl::Seconds(waiting[i].seconds) + seen[i].report.timing.queue;
    };
    return start(a) < start(b);
  });
  EXPECT_THAT(by_start, ::testing::ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(CoordinatorTest, ADeadlineEndsARequestInTheQueueAndInMidText) {
  ToyCluster cluster(1, {.max_sessions = 1, .max_queued = 2});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  Seen running, queued;
  GenerationRequest request = ToyCluster::Request(100);
  request.deadline = cluster.executor.Now() + absl::Milliseconds(45);
  cluster.Start(request, &running);
  request.request_id = "queued";
  request.deadline = cluster.executor.Now() + absl::Milliseconds(25);
  cluster.Start(request, &queued);
  cluster.executor.AdvanceBy(absl::Minutes(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(queued.status)) << queued.status;
  EXPECT_TRUE(queued.tokens.empty());
  EXPECT_EQ(queued.report.timing.total, absl::Milliseconds(25));
  EXPECT_TRUE(absl::IsDeadlineExceeded(running.status)) << running.status;
  EXPECT_EQ(running.steps.size(), 4u);
  EXPECT_EQ(running.report.timing.total, absl::Milliseconds(45));
  cluster.ExpectNothingOpen();
}

TEST(CoordinatorTest, TheSaltOpensTheSequenceAndThePriorityComesWithEachRound) {
  ToyCluster cluster(1);
  GenerationRequest request = ToyCluster::Request(20);
  request.cache_salt = "mine";
  request.priority = 7;
  cluster.Run(request);
  ASSERT_GT(cluster.verifier.requests().size(), 1u);
  for (const VerifyRequest& r : cluster.verifier.requests()) {
    EXPECT_EQ(r.update.cache_salt, r.update.base_length == 0 ? "mine" : "");
    EXPECT_EQ(r.priority, 7);
  }
}

// Later rounds have none of the prompt, whatever a verifier says.
TEST(CoordinatorTest, CachedTokensOfThePromptAreReported) {
  ToyCluster cluster(1);
  for (const int64_t cached : {3, 99}) {
    cluster.verifier.Behave(
        {.corrupt = [=](VerifyResult& r) { r.cached_tokens = cached; }});
    const Seen seen = cluster.Run(ToyCluster::Request(20));
    EXPECT_EQ(seen.report.usage.cached_tokens, std::min<int64_t>(cached, 5));
    EXPECT_EQ(seen.cached_tokens, seen.report.usage.cached_tokens);
  }
}

TEST(CoordinatorTest, RefusesALiveRequestIdAndLeavesTheFirstAlone) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  Seen first, second;
  cluster.Start(ToyCluster::Request(), &first);
  const auto ticket = cluster.Start(ToyCluster::Request(), &second);
  cluster.coordinator->Cancel(ticket);
  cluster.executor.AdvanceBy(absl::Minutes(1));
  EXPECT_TRUE(absl::IsAlreadyExists(second.status)) << second.status;
  EXPECT_EQ(second.num_finishes, 1);
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_TRUE(cluster.Run(ToyCluster::Request()).status.ok());
}

TEST(CoordinatorTest, BadRequestHearsOfItsField) {
  ToyCluster cluster(1);
  GenerationRequest request = ToyCluster::Request();
  request.prompt.clear();
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(FieldOf(seen.status), "prompt");
  EXPECT_EQ(seen.report.finish_reason, FinishReason::kError);
}

TEST(CoordinatorTest, RefusesWhileTheVerifierIsNotConnected) {
  ToyCluster cluster(1);
  cluster.info.reset();
  EXPECT_TRUE(absl::IsUnavailable(cluster.Run(ToyCluster::Request()).status));
}

TEST(CoordinatorTest, CancelledInTheQueueNeverRuns) {
  ToyCluster cluster(1, {.max_sessions = 1});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  Seen first, second, third;
  GenerationRequest request = ToyCluster::Request();
  cluster.Start(request, &first);
  request.request_id = "second";
  const auto ticket = cluster.Start(request, &second);
  request.request_id = "third";
  request.deadline = cluster.executor.Now() + absl::Milliseconds(5);
  cluster.Start(request, &third);
  cluster.coordinator->Cancel(ticket);
  cluster.executor.AdvanceBy(absl::Minutes(1));
  EXPECT_TRUE(absl::IsCancelled(second.status)) << second.status;
  EXPECT_EQ(second.report.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(absl::IsDeadlineExceeded(third.status)) << third.status;
  EXPECT_TRUE(third.tokens.empty());
  EXPECT_TRUE(first.status.ok());
  cluster.ExpectNothingOpen();
}

TEST(CoordinatorTest, AbortSaysWhetherTheRequestWasLive) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = kHeld});
  Seen seen;
  cluster.Start(ToyCluster::Request(), &seen);
  std::vector<bool> was_live;
  for (int i = 0; i < 2; ++i) {
    cluster.coordinator->Abort("r", [&](bool b) { was_live.push_back(b); });
  }
  cluster.executor.RunUntilIdle();
  EXPECT_THAT(was_live, ElementsAre(true, false));
  EXPECT_TRUE(absl::IsCancelled(seen.status));
  cluster.ExpectNothingOpen();
}

TEST(CoordinatorTest, DrainLetsLiveRequestsFinishAndRefusesNewOnes) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  Seen first, second;
  bool idle = false;
  cluster.Start(ToyCluster::Request(), &first);
  cluster.coordinator->Drain([&] { idle = true; });
  cluster.Start(ToyCluster::Request(), &second);
  cluster.executor.RunUntilIdle();
  EXPECT_TRUE(absl::IsUnavailable(second.status)) << second.status;
  EXPECT_FALSE(idle);
  cluster.executor.AdvanceBy(absl::Minutes(1));
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_TRUE(idle);
}

TEST(CoordinatorTest, ShutdownEndsEverythingBeforeItIsDone) {
  ToyCluster cluster(1, {.max_sessions = 1});
  cluster.verifier.Behave({.delay = kHeld});
  cluster.drafters[0]->Behave({.delay = kHeld});
  Seen seen[2];
  GenerationRequest request = ToyCluster::Request();
  cluster.Start(request, &seen[0]);
  request.request_id = "other";
  cluster.Start(request, &seen[1]);
  cluster.executor.AdvanceBy(ToyCluster::kDraftTimeout);
  cluster.coordinator->Shutdown([&] {
    for (const Seen& one : seen) {
      EXPECT_EQ(one.num_finishes, 1);
      EXPECT_TRUE(absl::IsUnavailable(one.status)) << one.status;
      EXPECT_TRUE(RetryAfter(one.status).has_value());
    }
    cluster.ExpectNothingOpen();
    cluster.coordinator.reset();
  });
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(cluster.coordinator, nullptr);
  cluster.verifier.Release();
  cluster.drafters[0]->Release();
  cluster.executor.AdvanceBy(absl::Hours(1));
}

TEST(CoordinatorTest, RefusesOptionsThatCannotWork) {
  FakeDraftEndpoint endpoint(nullptr, nullptr);
  const DrafterHandle duplicate = {.name = "duplicate", .endpoint = &endpoint};
  const auto made = Coordinator::Create({.drafters = {duplicate, duplicate}});
  EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("named twice"));
}

}  // namespace
}  // namespace espalier::coordinator
