// If the request leaves the choice to the strategy "budgeted", it spends time
// where it gains tokens. The clock stands still while code runs, so the times
// below are sums of the peers' delays.
#include <algorithm>

#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kTokens = 800;
constexpr absl::Duration kPass = absl::Milliseconds(10);

GenerationRequest Adaptive() {
  GenerationRequest request = ToyCluster::Request(kTokens);
  request.speculation.strategy = "budgeted";
  return request;
}

// Report of a request after an earlier one, from which the cluster has learned.
class AdaptiveSpeculationTest : public testing::Test {
 protected:
  static GenerationReport RunTwice(ToyCluster& cluster) {
    cluster.verifier.Behave({.delay = kPass});
    const GenerationRequest request = Adaptive();
    cluster.Run(request);
    const Seen seen = cluster.Run(request);
    EXPECT_TRUE(seen.status.ok()) << seen.status;
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    return seen.report;
  }

  static void DraftNonsense(FakeDraftEndpoint::Behaviour behaviour,
                            FakeDraftEndpoint& drafter) {
    behaviour.corrupt = [](Proposal& p) {
      for (size_t i = 1; i < p.tree.tokens.size(); ++i) {
        p.tree.tokens[i] = (p.tree.tokens[i] + 1) % 50;
      }
    };
    drafter.Behave(behaviour);
  }
};

TEST_F(AdaptiveSpeculationTest, SlowDrafterOfThreeCostsNextToNothing) {
  ToyCluster two(2), three(3);
  for (ToyCluster* cluster : {&two, &three}) {
    for (auto& drafter : cluster->drafters) {
      drafter->Behave({.delay = absl::Milliseconds(2)});
    }
  }
  three.drafters[2]->Behave({.delay = absl::Milliseconds(200)});
  const absl::Duration without = RunTwice(two).timing.total;
  const absl::Duration with = RunTwice(three).timing.total;
  EXPECT_LE(with, 1.05 * without);
}

TEST_F(AdaptiveSpeculationTest, NonsenseIsSwitchedOff) {
  ToyCluster cluster(2);
  for (auto& drafter : cluster.drafters) {
    DraftNonsense({.delay = absl::Milliseconds(5)}, *drafter);
  }
  EXPECT_LE(RunTwice(cluster).timing.total, 1.05 * kTokens * kPass);
}

// What holds a round up once says nothing about the price of time.
class HeldUpRoundTest : public AdaptiveSpeculationTest {
 protected:
  static constexpr absl::Duration kHeldUp = absl::Seconds(100);

  // Time of a request beside a drafter that is not worth its time: it predicts
  // one token in four rounds. behaviour: of call 400 to the verifier.
  static absl::Duration TimeWith(FakeVerifyEndpoint::Behaviour behaviour) {
    ToyCluster cluster(
        1, {.verifier_retry = {.ask_again_after = absl::InfiniteDuration()}});
    cluster.drafters[0]->Behave({.delay = absl::Milliseconds(5)});
    cluster.drafters[0]->DraftBy([&](const auto& text, const auto&) {
      return text.size() % 4 == 0 ? cluster.target.PerfectChain(text, 1)
                                  : cluster.target.WrongChain(text, 1);
    });
    cluster.verifier.Behave([&behaviour, call = 0]() mutable {
      return call++ == 400 ? behaviour
                           : FakeVerifyEndpoint::Behaviour{.delay = kPass};
    });
    const GenerationRequest request = Adaptive();
    const Seen seen = cluster.Run(request);
    EXPECT_TRUE(seen.status.ok()) << seen.status;
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    return seen.report.timing.total;
  }
};

TEST_F(HeldUpRoundTest, ByAnything) {
  const absl::Duration usual = TimeWith({.delay = kPass});
  const absl::Duration most = kHeldUp + 1.01 * usual;
  EXPECT_LE(TimeWith({.delay = kHeldUp,
                      .corrupt =
                          [](VerifyResult& r) {
                            r.timings.queue = r.timings.room = kHeldUp - kPass;
                          }}),
            most)
      << "a K/V pool that is full";
  EXPECT_LE(TimeWith({.delay = kHeldUp,
                      .corrupt =
                          [](VerifyResult& r) {
                            r.timings.prefill = kHeldUp - kPass;
                          }}),
            most)
      << "K/V that is computed again";
  EXPECT_LE(
      TimeWith({.delay = kHeldUp, .error = absl::UnavailableError("restarts")}),
      most + absl::Seconds(1))
      << "a verifier that is away";
  EXPECT_LE(TimeWith({.delay = kHeldUp}), most) << "a machine that hangs";
}

TEST_F(AdaptiveSpeculationTest, MeasuringPassesAreNotThePaceOfPlainDecoding) {
  ToyCluster cluster(1);
  DraftNonsense({.delay = absl::Milliseconds(2)}, *cluster.drafters[0]);
  cluster.verifier.Behave({.delay = 3 * kPass, .corrupt = [](VerifyResult& r) {
                             r.timings.queue = r.timings.measuring = 2 * kPass;
                           }});
  const Seen seen = cluster.Run(Adaptive());
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.report.spec.plain_round, kPass);
}

TEST_F(AdaptiveSpeculationTest, NonsenseBesideGoodTreesIsNotVerified) {
  ToyCluster cluster(2);
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(2)});
  DraftNonsense({.delay = absl::Milliseconds(2)}, *cluster.drafters[1]);
  cluster.info->pass_costs = {{.rows = 1, .time = kPass},
                              {.rows = 64, .time = 2 * kPass}};
  const SpecStats spec = RunTwice(cluster).spec;
  EXPECT_LT(spec.drafters[1].proposed, spec.drafters[0].proposed / 10);
}

TEST_F(AdaptiveSpeculationTest, RowsThatCostMuchAreNotSpent) {
  ToyCluster cheap(1), dear(1);
  for (ToyCluster* cluster : {&cheap, &dear}) {
    cluster->drafters[0]->Behave({.delay = absl::Milliseconds(1)});
  }
  // A further row takes as long as a pass.
  dear.info->pass_costs = {{.rows = 1, .time = kPass},
                           {.rows = 64, .time = 64 * kPass}};
  EXPECT_GT(RunTwice(cheap).spec.mean_acceptance_length(), 6);
  EXPECT_LT(RunTwice(dear).spec.num_draft_tokens, kTokens / 100);
}

// The first drafter is like prompt lookup when the text copies its prompt.
TEST_F(AdaptiveSpeculationTest, WhatAQuickOneForetellsNobodyElseIsAsked) {
  ToyCluster cluster(2);
  const auto is_copied = [](const std::vector<TokenId>& text) {
    return text.size() / 50 % 2 == 0;
  };
  cluster.drafters[0]->DraftBy([&](const auto& text, const auto& budget) {
    return is_copied(text)
               ? cluster.target.PerfectChain(
                     text, std::min(budget.max_depth, budget.max_nodes))
               : TokenTree::RootOnly(text.back());
  });
  int asked_in_copies = 0, asked_elsewhere = 0;
  cluster.drafters[1]->Behave({.delay = absl::Milliseconds(2)});
  cluster.drafters[1]->DraftBy([&](const auto& text, const auto& budget) {
    ++(is_copied(text) ? asked_in_copies : asked_elsewhere);
    return cluster.target.PerfectChain(text,
                                       std::min<int64_t>(3, budget.max_depth));
  });
  RunTwice(cluster);
  EXPECT_LT(asked_in_copies, asked_elsewhere / 10);
  EXPECT_GT(asked_elsewhere, kTokens / 5);
}

TEST_F(AdaptiveSpeculationTest, DrafterThatBecomesGoodIsFound) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  DraftNonsense({.delay = absl::Milliseconds(5)}, *cluster.drafters[0]);
  EXPECT_LT(RunTwice(cluster).spec.mean_acceptance_length(), 1.1);
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(5)});
  EXPECT_GT(RunTwice(cluster).spec.mean_acceptance_length(), 2.5);
}

}  // namespace
}  // namespace espalier::coordinator
