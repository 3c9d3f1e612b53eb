// The verifier may die, restart and forget. The text goes on without lost or
// duplicate tokens, or ends with a clear error.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator::verifier_faults_test {
namespace {

using Behaviour = FakeVerifyEndpoint::Behaviour;

// Misbehaves only in call number `at`.
std::function<Behaviour()> Once(int at, Behaviour behaviour) {
  return [at, behaviour, call = 0]() mutable {
    return call++ == at ? behaviour : Behaviour{};
  };
}

struct Fault {
  const char* name;
  Behaviour behaviour;
};

class VerifierFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(VerifierFaultTest, AtAnyStepLeavesTheTextAsItIs) {
  for (int at = 0; at < 5; ++at) {
    SCOPED_TRACE(at);
    ToyCluster cluster(1);
    GenerationRequest request = ToyCluster::Request(40);
    request.speculation.max_depth = 4;
    // RESOURCE_EXHAUSTED before the first token is for the client.
    if (at == 0 && absl::IsResourceExhausted(GetParam().behaviour.error)) {
      continue;
    }
    cluster.verifier.Behave(Once(at, GetParam().behaviour));
    const Seen seen = cluster.Run(request);
    EXPECT_TRUE(seen.status.ok()) << seen.status;
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    EXPECT_EQ(seen.report.spec.num_spec_steps, 8);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, VerifierFaultTest,
    testing::Values(
        Fault{"Away", {.error = absl::UnavailableError("away")}},
        Fault{"ReplyLost", {.lost_reply = absl::UnavailableError("reset")}},
        Fault{"StateLost", {.lose_state = true}},
        Fault{"Restarted",
              {.lose_state = true, .error = absl::UnavailableError("reset")}},
        Fault{"NeverAnswers", {.delay = kHeld}},
        Fault{"Full", {.error = absl::ResourceExhaustedError("no blocks")}},
        Fault{"HalfForgotten", {.error = StaleBaseError(2, 5)}}),
    [](const auto& suite) { return std::string(suite.param.name); });

TEST(VerifierFaultsTest, RestartedVerifierIsFedAgainAtOnce) {
  ToyCluster cluster(1);
  cluster.verifier.Behave(Once(1, {.lose_state = true}));
  const Seen seen = cluster.Run(ToyCluster::Request(18));
  const auto& requests = cluster.verifier.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[2].update.round, requests[1].update.round);
  EXPECT_EQ(requests[2].update.base_length, 0);
  EXPECT_EQ(requests[2].update.new_tokens.size(), 5u + 9u);
  EXPECT_EQ(requests[2].tree.tokens, requests[1].tree.tokens);
  EXPECT_EQ(seen.report.timing.total, absl::ZeroDuration());
}

TEST(VerifierFaultsTest, RetriesWithGrowingPausesUntilTheDeadline) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.error = absl::UnavailableError("away")});
  GenerationRequest request = ToyCluster::Request();
  request.deadline = cluster.executor.Now() + absl::Seconds(10);
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(absl::IsUnavailable(seen.status)) << seen.status;
  EXPECT_TRUE(RetryAfter(seen.status).has_value());
  EXPECT_EQ(seen.report.finish_reason, FinishReason::kError);
  // Before the deadline, so that the client learns the cause.
  EXPECT_EQ(seen.report.timing.total, absl::Seconds(10) - kForTheCause);
  // 50, 100, .. 1600, 2000 ms and on, each within a quarter.
  EXPECT_GE(cluster.verifier.requests().size(), 8u);
  EXPECT_LE(cluster.verifier.requests().size(), 12u);
}

TEST(VerifierFaultsTest, GivesUpOnAVerifierThatStaysAway) {
  ToyCluster cluster(1, {.verifier_retry = {.most_away = absl::Seconds(30)}});
  cluster.verifier.Behave({.error = absl::UnavailableError("away")});
  const Seen seen = cluster.Run(ToyCluster::Request());
  EXPECT_TRUE(absl::IsUnavailable(seen.status)) << seen.status;
  EXPECT_TRUE(RetryAfter(seen.status).has_value());
  EXPECT_EQ(seen.report.timing.total, absl::Seconds(30));
}

TEST(VerifierFaultsTest, WhatBeginsWhenItHasLongBeenAwayDoesNotWaitAgain) {
  ToyCluster cluster(1, {.verifier_retry = {.most_away = absl::Seconds(30)}});
  cluster.verifier.Behave({.error = absl::UnavailableError("away")});
  EXPECT_TRUE(absl::IsUnavailable(cluster.Run(ToyCluster::Request()).status));
  const Seen second = cluster.Run(ToyCluster::Request());
  EXPECT_TRUE(absl::IsUnavailable(second.status)) << second.status;
  EXPECT_EQ(second.report.timing.total, absl::ZeroDuration());
  cluster.verifier.Behave({});
  EXPECT_TRUE(cluster.Run(ToyCluster::Request()).status.ok());
}

TEST(VerifierFaultsTest, AlwaysStaleVerifierIsNotAskedInABusyLoop) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.error = StaleBaseError(0, 5)});
  GenerationRequest request = ToyCluster::Request();
  request.deadline = cluster.executor.Now() + absl::Seconds(10);
  EXPECT_TRUE(absl::IsUnavailable(cluster.Run(request).status));
  EXPECT_LE(cluster.verifier.requests().size(), 24u);
}

TEST(VerifierFaultsTest, HungVerifierEndsAtTheDeadline) {
  ToyCluster cluster(1);
  cluster.verifier.Behave(Once(1, {.delay = kHeld}));
  GenerationRequest request = ToyCluster::Request(18);
  request.deadline = cluster.executor.Now() + absl::Seconds(3);
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(absl::IsDeadlineExceeded(seen.status)) << seen.status;
  EXPECT_EQ(seen.report.finish_reason, FinishReason::kDeadline);
  EXPECT_THAT(std::string(seen.status.message()),
              testing::HasSubstr("the verifier has not answered for 2 s"));
  EXPECT_EQ(seen.tokens.size(), 9u);
  EXPECT_EQ(seen.report.timing.total, absl::Seconds(3) - kForTheCause);
  cluster.verifier.Release();
  cluster.executor.RunUntilIdle();
}

// Each call may cost a hung verifier a pass.
TEST(VerifierFaultsTest, CallsToAHungVerifierBecomeRarer) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = kHeld});
  GenerationRequest request = ToyCluster::Request();
  request.deadline = cluster.executor.Now() + absl::Seconds(100);
  EXPECT_TRUE(absl::IsDeadlineExceeded(cluster.Run(request).status));
  EXPECT_EQ(cluster.verifier.requests().size(), 4u);  // at 0, 10, 30 and 70 s
}

TEST(VerifierFaultsTest, AnswerToAnEarlierCallIsNotTakenForALaterRounds) {
  ToyCluster cluster(1);
  cluster.verifier.Behave(Once(0, {.delay = kHeld}));
  const GenerationRequest request = ToyCluster::Request(40);
  Seen seen;
  cluster.Start(request, &seen);
  cluster.executor.AdvanceBy(absl::Seconds(5));
  // The second call is answered, the next round waits, and now comes the
  // answer to the first call.
  cluster.verifier.Behave(Once(1, {.delay = absl::Seconds(1)}));
  cluster.executor.AdvanceBy(absl::Milliseconds(5500));
  EXPECT_EQ(seen.tokens.size(), 9u);
  cluster.verifier.Release();
  cluster.executor.AdvanceBy(absl::Hours(1));
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
}

TEST(VerifierFaultsTest, SessionsDoNotComeBackAllAtOnce) {
  constexpr int kSessions = 8;
  ToyCluster cluster(0, {.max_sessions = kSessions});
  std::set<absl::Time> times;
  cluster.verifier.Behave([&] {
    times.insert(cluster.executor.Now());
    return Behaviour{.error = absl::UnavailableError("away")};
  });
  std::vector<Seen> seen(kSessions);
  for (int i = 0; i < kSessions; ++i) {
    GenerationRequest request = ToyCluster::Request();
    request.request_id = std::to_string(i);
    request.deadline =
        cluster.executor.Now() + absl::Milliseconds(70) + kForTheCause;
    cluster.Start(request, &seen[i]);
  }
  cluster.executor.AdvanceBy(absl::Hours(1));
  // The first call of all, then a retry of each after 37.5 to 62.5 ms.
  EXPECT_EQ(times.size(), 1u + kSessions);
}

TEST(VerifierFaultsTest, RequestWithoutADeadlineGetsTheServersOwn) {
  ToyCluster cluster(1, {.max_request_duration = absl::Seconds(5)});
  cluster.verifier.Behave({.delay = kHeld});
  const Seen seen = cluster.Run(ToyCluster::Request());
  EXPECT_TRUE(absl::IsDeadlineExceeded(seen.status)) << seen.status;
  EXPECT_EQ(seen.report.timing.total, absl::Seconds(5) - kForTheCause);
}

TEST(VerifierFaultsTest, NoRoomForTheSequenceIsForTheClient) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.error = absl::ResourceExhaustedError("blocks")});
  const Seen seen = cluster.Run(ToyCluster::Request());
  EXPECT_TRUE(absl::IsResourceExhausted(seen.status)) << seen.status;
  EXPECT_EQ(RetryAfter(seen.status), absl::Seconds(1));
}

TEST(VerifierFaultsTest, LessRoomThanThePlanCountsOnEndsTheTextByLength) {
  ToyCluster cluster(1);
  cluster.verifier.Behave(
      Once(1, {.error = absl::OutOfRangeError("max_context is 10")}));
  const Seen seen = cluster.Run(ToyCluster::Request(30));
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.report.finish_reason, FinishReason::kLength);
  EXPECT_EQ(seen.tokens.size(), 9u);

  cluster.verifier.Behave({.error = absl::OutOfRangeError("max_context is 3")});
  const Seen refused = cluster.Run(ToyCluster::Request(30));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status)) << refused.status;
  EXPECT_FALSE(RetryAfter(refused.status));
}

TEST(VerifierFaultsTest, OtherErrorsEndTheRequest) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.error = absl::InvalidArgumentError("bad rule")});
  EXPECT_TRUE(
      absl::IsInvalidArgument(cluster.Run(ToyCluster::Request()).status));
  cluster.verifier.Behave({.error = absl::InternalError("out of memory")});
  EXPECT_TRUE(absl::IsInternal(cluster.Run(ToyCluster::Request()).status));
  cluster.verifier.Behave({.error = StaleBaseError(6, 5)});
  EXPECT_TRUE(absl::IsInternal(cluster.Run(ToyCluster::Request()).status));
}

TEST(VerifierFaultsTest, VerifyResultThatDoesNotFitIsNotBelieved) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.corrupt = [](VerifyResult& verify_result) {
    verify_result.tokens[0] += 1;
  }});
  const Seen seen = cluster.Run(ToyCluster::Request());
  EXPECT_TRUE(absl::IsInternal(seen.status)) << seen.status;
  EXPECT_TRUE(seen.tokens.empty());
}

TEST(VerifierFaultsTest, AnotherModelDoesNotFinishTheText) {
  ToyCluster cluster(1);
  cluster.verifier.Behave([&, call = 0]() mutable {
    const bool restarted = call++ == 1;
    if (restarted) cluster.info->model.tokenizer_fingerprint = 2;
    return Behaviour{.lose_state = restarted};
  });
  const Seen seen = cluster.Run(ToyCluster::Request(30));
  EXPECT_TRUE(absl::IsUnavailable(seen.status)) << seen.status;
  EXPECT_TRUE(RetryAfter(seen.status).has_value());
  EXPECT_EQ(seen.tokens.size(), 9u);
}

TEST(VerifierFaultsTest, OtherWeightsOfTheSameNameDoNotFinishTheText) {
  ToyCluster cluster(1);
  cluster.verifier.Behave([&, call = 0]() mutable {
    const bool restarted = call++ == 1;
    if (restarted) cluster.info->model.weights_fingerprint = 2;
    return Behaviour{.lose_state = restarted};
  });
  const Seen seen = cluster.Run(ToyCluster::Request(30));
  EXPECT_TRUE(absl::IsUnavailable(seen.status)) << seen.status;
  EXPECT_TRUE(RetryAfter(seen.status).has_value());
  EXPECT_THAT(std::string(seen.status.message()),
              ::testing::HasSubstr("other weights"));
  EXPECT_EQ(seen.tokens.size(), 9u);
}

}  // namespace
}  // namespace espalier::coordinator::verifier_faults_test
