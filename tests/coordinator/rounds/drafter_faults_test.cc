// A drafter can cost speed, never correctness or availability.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

constexpr absl::Duration kTimeout = ToyCluster::kDraftTimeout;

struct Fault {
  const char* name;
  FakeDraftEndpoint::Behaviour behaviour;
};

class DrafterFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(DrafterFaultTest, AloneItLeavesPlainDecoding) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave(GetParam().behaviour);
  const GenerationRequest request = ToyCluster::Request(12);
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.spec.num_spec_steps, 12);
  // No tree is wanted for the last token.
  EXPECT_EQ(seen.report.spec.degraded_steps, 11);
}

TEST_P(DrafterFaultTest, BesideAGoodDrafterItTakesNothingAway) {
  ToyCluster cluster(2);
  cluster.drafters[0]->Behave(GetParam().behaviour);
  const GenerationRequest request = ToyCluster::Request(18);
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.spec.num_spec_steps, 2);
  EXPECT_EQ(seen.report.spec.degraded_steps, 0);
}

FakeDraftEndpoint::Behaviour Lie(std::function<void(Proposal&)> tell) {
  return {.corrupt = std::move(tell)};
}

INSTANTIATE_TEST_SUITE_P(
    Faults, DrafterFaultTest,
    testing::Values(
        Fault{"Late", {.delay = kTimeout + absl::Milliseconds(1)}},
        Fault{"Hung", {.delay = kHeld}},
        Fault{"Gone", {.error = absl::UnavailableError("gone")}},
        Fault{"Full", {.error = absl::ResourceExhaustedError("full")}},
        Fault{"Broken", {.error = absl::InternalError("bug")}},
        Fault{"Refuses", {.error = absl::InvalidArgumentError("what?")}},
        Fault{"AlwaysStale", {.error = StaleBaseError(0, 5)}},
        Fault{"Cycle", Lie([](Proposal& p) { p.tree.parents[1] = 1; })},
        Fault{"TokenOutOfRange",
              Lie([](Proposal& p) { p.tree.tokens.back() = 50; })},
        Fault{"NotANumber",
              Lie([](Proposal& p) { p.tree.log_probs.back() = NAN; })},
        Fault{"MillionNodes", Lie([](Proposal& p) {
                for (int i = 0; i < 1000000; ++i) p.tree.Add(0, 1, -1.0f);
              })},
        Fault{"WrongLength", Lie([](Proposal& p) { ++p.committed_length; })},
        Fault{"ReplayedRound", Lie([](Proposal& p) { --p.round; })},
        Fault{"WrongRoot", Lie([](Proposal& p) {
                p.tree.tokens[0] = (p.tree.tokens[0] + 1) % 50;
              })},
        Fault{"LiesInAPart",
              {.part = [](Proposal& p) { p.tree.parents[1] = 1; }}},
        Fault{"LiesInAPartAndHangs",
              {.delay = kHeld, .part = [](Proposal& p) { ++p.round; }}},
        Fault{"PartWithNothing",
              {.delay = kHeld, .part = FakeDraftEndpoint::FirstNodes(0)}},
        Fault{"LatePart",
              {.delay = kTimeout + absl::Milliseconds(2),
               .part = FakeDraftEndpoint::FirstNodes(3),
               .part_delay = kTimeout + absl::Milliseconds(1)}}),
    [](const auto& suite) { return std::string(suite.param.name); });

TEST(DrafterFaultsTest, WrongTokensCostNothingButTheirNodes) {
  const ToyTarget target = {};
  FakeDraftEndpoint wrong(
      /*executor=*/nullptr, [&](const auto& text, const auto& budget) {
        return target.WrongChain(text, budget.max_depth);
      });
  ToyCluster cluster(0, {.drafters = {{"wrong", &wrong}}});
  const GenerationRequest request = ToyCluster::Request(12);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.spec.num_accepted_draft_tokens, 0);
  EXPECT_EQ(seen.report.spec.num_spec_steps, 12);
  EXPECT_GT(seen.report.spec.num_draft_tokens, 0);
}

TEST(DrafterFaultsTest, NobodyWaitsForADrafterThatOwesAnAnswer) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave({.delay = kHeld});
  const Seen seen = cluster.Run(ToyCluster::Request(12));
  EXPECT_EQ(seen.report.timing.draft_wait, kTimeout);
  EXPECT_EQ(seen.report.spec.drafters[0].timeouts, 1);
  EXPECT_EQ(cluster.drafters[0]->requests().size(), 1u);
}

TEST(DrafterFaultsTest, LateDrafterCatchesUpInOneUpdateAndHelpsAgain) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  int num_calls = 0;
  cluster.drafters[0]->Behave([&] {
    return FakeDraftEndpoint::Behaviour{
        .delay = num_calls++ == 0 ? kTimeout + absl::Milliseconds(25)
                                  : absl::ZeroDuration()};
  });
  const GenerationRequest request = ToyCluster::Request(30);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  const auto& requests = cluster.drafters[0]->requests();
  ASSERT_GE(requests.size(), 2u);
  // Steps of 50+10, 10 and 10 ms: the answer comes during the third, and the
  // fourth asks again.
  EXPECT_EQ(requests[1].update.round, 4u);
  EXPECT_EQ(requests[1].update.base_length, 5);
  EXPECT_EQ(requests[1].update.new_tokens.size(), 3u);
  EXPECT_EQ(seen.report.spec.degraded_steps, 3);
  EXPECT_EQ(seen.report.spec.num_spec_steps, 3 + 3);
}

TEST(DrafterFaultsTest, RestartedDrafterIsFedAgain) {
  ToyCluster cluster(1);
  int num_calls = 0;
  cluster.drafters[0]->Behave([&] {
    return FakeDraftEndpoint::Behaviour{.lose_state = num_calls++ == 1};
  });
  const GenerationRequest request = ToyCluster::Request(30);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  const auto& requests = cluster.drafters[0]->requests();
  EXPECT_EQ(requests[1].update.base_length, 5);
  EXPECT_EQ(requests[2].update.base_length, 0);
  EXPECT_EQ(requests[2].update.new_tokens.size(), 5u + 9u + 1u);
  EXPECT_EQ(seen.report.spec.degraded_steps, 1);
}

TEST(DrafterFaultsTest, LiarIsNotAskedAgainInItsSessionButInTheNext) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave(Lie([](Proposal& p) { ++p.round; }));
  const Seen seen = cluster.Run(ToyCluster::Request(12));
  EXPECT_EQ(cluster.drafters[0]->requests().size(), 1u);
  EXPECT_EQ(seen.report.spec.drafters[0].errors, 1);
  cluster.Run(ToyCluster::Request(12));
  EXPECT_EQ(cluster.drafters[0]->requests().size(), 2u);
}

TEST(DrafterFaultsTest, HungDrafterStopsCostingNewSessionsADeadline) {
  ToyCluster cluster(1, {.drafter_timeouts_to_open = 3});
  cluster.drafters[0]->Behave({.delay = kHeld});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster.Run(ToyCluster::Request()).report.timing.draft_wait,
              kTimeout);
  }
  EXPECT_TRUE(cluster.coordinator->Drafters()[0].circuit_open);
  EXPECT_EQ(cluster.Run(ToyCluster::Request()).report.timing.draft_wait,
            absl::ZeroDuration());
  EXPECT_EQ(cluster.drafters[0]->requests().size(), 4u);  // still probed
}

TEST(DrafterFaultsTest, AnswerInTimeClosesTheCircuit) {
  ToyCluster cluster(1, {.drafter_timeouts_to_open = 1});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  cluster.drafters[0]->Behave({.delay = kHeld});
  cluster.Run(ToyCluster::Request());
  EXPECT_TRUE(cluster.coordinator->Drafters()[0].circuit_open);
  EXPECT_FALSE(cluster.coordinator->Drafters()[0].up);
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(2)});
  const Seen seen = cluster.Run(ToyCluster::Request(19));
  // The first round goes on without the probe; then 9 + 9 tokens.
  EXPECT_EQ(seen.report.spec.degraded_steps, 1);
  EXPECT_EQ(seen.report.spec.num_spec_steps, 1 + 2);
  EXPECT_FALSE(cluster.coordinator->Drafters()[0].circuit_open);
  EXPECT_TRUE(cluster.coordinator->Drafters()[0].up);
}

// A drafter that always answers a little too late is waited for once.
TEST(DrafterFaultsTest, LateAnswersDoNotCloseTheCircuit) {
  ToyCluster cluster(1, {.drafter_timeouts_to_open = 1});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  cluster.drafters[0]->Behave({.delay = kTimeout + absl::Milliseconds(5)});
  const Seen seen = cluster.Run(ToyCluster::Request(30));
  ASSERT_GE(cluster.drafters[0]->requests().size(), 3u);
  EXPECT_EQ(seen.report.timing.draft_wait, kTimeout);
  EXPECT_EQ(seen.report.spec.drafters[0].timeouts, 1);
  EXPECT_TRUE(cluster.coordinator->Drafters()[0].circuit_open);
  EXPECT_FALSE(cluster.coordinator->Drafters()[0].up);
}

TEST(DrafterFaultsTest, WhatHungDrafterToldBeforeIsUsedAtTheDeadline) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave(
      {.delay = kHeld, .part = FakeDraftEndpoint::FirstNodes(3)});
  const GenerationRequest request = ToyCluster::Request(12);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  ASSERT_FALSE(seen.steps.empty());
  EXPECT_EQ(seen.report.spec.num_accepted_draft_tokens, 3);
  EXPECT_EQ(seen.report.spec.num_spec_steps, 1 + 8);
  // It still owes its answer.
  EXPECT_EQ(cluster.drafters[0]->requests().size(), 1u);
  EXPECT_EQ(seen.report.timing.draft_wait, kTimeout);
  EXPECT_EQ(seen.report.spec.drafters[0].timeouts, 0);
}

TEST(DrafterFaultsTest, WholeTreeInTimeReplacesItsParts) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave({.delay = kTimeout / 2, .part = [](Proposal& p) {
                                 p.tree.tokens[1] = (p.tree.tokens[1] + 1) % 50;
                               }});
  const GenerationRequest request = ToyCluster::Request(18);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.spec.num_spec_steps, 2);
}

TEST(DrafterFaultsTest, RestOfALateTreeIsDroppedAndItsDrafterAskedAgain) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  cluster.drafters[0]->Behave({.delay = kTimeout + absl::Milliseconds(5),
                               .part = FakeDraftEndpoint::FirstNodes(3),
                               .part_delay = kTimeout / 2});
  const GenerationRequest request = ToyCluster::Request(12);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  // Every round waits until the deadline; the complete answer comes while the
  // partial tree is verified.
  EXPECT_EQ(seen.report.spec.num_spec_steps, 3);
  EXPECT_EQ(cluster.drafters[0]->requests().size(), 3u);
  EXPECT_FALSE(cluster.coordinator->Drafters()[0].circuit_open);
}

TEST(DrafterFaultsTest, PartThatIsARootAloneIsATimeout) {
  ToyCluster cluster(1, {.drafter_timeouts_to_open = 1});
  cluster.drafters[0]->Behave(
      {.delay = kHeld, .part = FakeDraftEndpoint::FirstNodes(0)});
  const Seen seen = cluster.Run(ToyCluster::Request());
  EXPECT_EQ(seen.report.spec.drafters[0].timeouts, 1);
  EXPECT_TRUE(cluster.coordinator->Drafters()[0].circuit_open);
}

TEST(DrafterFaultsTest, PartInTimeKeepsTheCircuitClosed) {
  ToyCluster cluster(1, {.drafter_timeouts_to_open = 1});
  cluster.drafters[0]->Behave(
      {.delay = kHeld, .part = FakeDraftEndpoint::FirstNodes(2)});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster.Run(ToyCluster::Request())
                  .report.spec.num_accepted_draft_tokens,
              2);
  }
  EXPECT_FALSE(cluster.coordinator->Drafters()[0].circuit_open);
}

TEST(DrafterFaultsTest, PartInTimeEndsARowOfTimeouts) {
  ToyCluster cluster(1, {.drafter_timeouts_to_open = 2});
  cluster.drafters[0]->Behave({.delay = kHeld});
  cluster.Run(ToyCluster::Request());
  cluster.drafters[0]->Behave(
      {.delay = kHeld, .part = FakeDraftEndpoint::FirstNodes(2)});
  cluster.Run(ToyCluster::Request());
  cluster.drafters[0]->Behave({.delay = kHeld});
  cluster.Run(ToyCluster::Request());
  EXPECT_FALSE(cluster.coordinator->Drafters()[0].circuit_open);
}

TEST(DrafterFaultsTest, NothingToProposeIsNoFault) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave(
      Lie([](Proposal& p) { p.tree = TokenTree::RootOnly(p.tree.tokens[0]); }));
  const Seen seen = cluster.Run(ToyCluster::Request(6));
  EXPECT_EQ(seen.report.spec.num_spec_steps, 6);
  EXPECT_EQ(seen.report.spec.degraded_steps, 0);
}

}  // namespace
}  // namespace espalier::coordinator
