// The path of features through the coordinator: FakeDraftEndpoint compares the
// drafter's features with the target in every request.

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"
#include "tests/coordinator/wanted_features.h"

namespace espalier::coordinator {
namespace {

using Behaviour = FakeDraftEndpoint::Behaviour;

// It takes its time, and no token of it is right.
void NeverPay(FakeDraftEndpoint& drafter) {
  drafter.Behave({.delay = absl::Milliseconds(5), .corrupt = [](Proposal& p) {
                    for (size_t i = 1; i < p.tree.tokens.size(); ++i) {
                      p.tree.tokens[i] = (p.tree.tokens[i] + 1) % 50;
                    }
                  }});
}

TEST(FeaturesTest, GoToThoseWhoWantThem) {
  ToyCluster cluster(3);
  cluster.drafters[0]->wanted = Taps({1, 5});
  cluster.drafters[2]->wanted = Taps({0, 1, 4});
  const auto request = ToyCluster::Request(30);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  for (int i : {0, 2}) {
    const FakeDraftEndpoint& drafter = *cluster.drafters[i];
    EXPECT_EQ(drafter.last_features().first_position, 0);
    EXPECT_EQ(drafter.last_features().end_position(), RootOf(drafter));
  }
  for (const ProposeRequest& asked : cluster.drafters[1]->requests()) {
    EXPECT_TRUE(asked.features.empty());
  }
}

// A drafter that was wrong is asked again in the middle of the next text.
TEST(FeaturesTest, OfThePromptGoToWhoIsAskedLate) {
  ToyCluster cluster(1);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  drafter.wanted = Taps({1, 5});
  NeverPay(drafter);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  GenerationRequest request = ToyCluster::Request(400);
  request.speculation.strategy = "budgeted";
  cluster.Run(request);
  const size_t asked_before = drafter.requests().size();
  cluster.Run(request);
  ASSERT_GT(drafter.requests().size(), asked_before);
  const ProposeRequest& first = drafter.requests()[asked_before];
  // At least one round did not ask it.
  EXPECT_GT(first.update.committed_length(), std::ssize(request.prompt) + 1);
  EXPECT_EQ(first.features.first_position, 0);
  EXPECT_EQ(first.features.end_position(), first.update.committed_length() - 1);
}

// The verifier keeps them while no drafter that wants them is asked.
TEST(FeaturesTest, AreDeferredWhereNoHeadIsAsked) {
  ToyCluster cluster(1);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  drafter.wanted = Taps({1, 5});
  NeverPay(drafter);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  GenerationRequest request = ToyCluster::Request(400);
  request.speculation.strategy = "budgeted";
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  const auto& rounds = cluster.verifier.requests();
  const auto deferred = std::count_if(
      rounds.begin(), rounds.end(),
      [](const VerifyRequest& round) { return round.features.deferred; });
  EXPECT_GT(deferred, std::ssize(rounds) / 2);
  EXPECT_GT(drafter.requests().size(), 10u) << "probes";
  for (const ProposeRequest& asked : drafter.requests()) {
    if (asked.features.empty()) continue;
    EXPECT_EQ(asked.features.end_position(),
              asked.update.committed_length() - 1);
  }
}

TEST(FeaturesTest, AreNotAskedForWhenNobodyWantsThem) {
  ToyCluster cluster(2);
  cluster.Run(ToyCluster::Request());
  for (const VerifyRequest& request : cluster.verifier.requests()) {
    EXPECT_TRUE(request.features.taps.empty());
  }
}

// Confidence routing (arXiv 2603.27027) may select any of them in any round.
TEST(FeaturesTest, DrafterThatIsNeverChosenIsKeptAsOneThatAlwaysIs) {
  ToyCluster routed(2), alone(1);
  // Both are right; the second is less sure, so the first is selected.
  routed.drafters[1]->Behave({.corrupt = [](Proposal& p) {
    for (size_t i = 1; i < p.tree.log_probs.size(); ++i) {
      p.tree.log_probs[i] -= 1;
    }
  }});
  routed.drafters[1]->wanted = alone.drafters[0]->wanted = Taps({1, 5});
  GenerationRequest request = ToyCluster::Request(9 * 21);
  request.speculation.strategy = "route";
  EXPECT_EQ(routed.Run(request).report.spec.drafters[1].proposed, 0);
  alone.Run(request);
  const auto& unchosen = routed.drafters[1]->requests();
  const auto& chosen = alone.drafters[0]->requests();
  ASSERT_EQ(unchosen.size(), chosen.size());
  ASSERT_GE(chosen.size(), 21u);
  for (size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_EQ(unchosen[i].update.prefix_hash, chosen[i].update.prefix_hash);
    EXPECT_EQ(unchosen[i].update.new_tokens, chosen[i].update.new_tokens);
    EXPECT_EQ(unchosen[i].features, chosen[i].features);
  }
}

TEST(FeaturesTest, EachPositionIsSentOnce) {
  ToyCluster cluster(1);
  cluster.drafters[0]->wanted = Taps({3});
  cluster.Run(ToyCluster::Request(30));
  int64_t next = 0;
  for (const ProposeRequest& request : cluster.drafters[0]->requests()) {
    if (request.features.empty()) continue;
    EXPECT_EQ(request.features.first_position, next);
    next = request.features.end_position();
  }
  EXPECT_EQ(next, RootOf(*cluster.drafters[0]));
}

// A drafter that is busy with the first part of a long prompt's features gets
// the others in its next requests.
TEST(FeaturesTest, ALongPromptReachesTheDrafterInParts) {
  constexpr FeatureBudget::Limits kLimits = {
      .session_bytes = 100, .all_bytes = 100'000, .request_bytes = 400};
  ToyCluster cluster(1, {.feature_limits = kLimits});
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  drafter.wanted = Taps({1, 2});
  GenerationRequest request = ToyCluster::Request(60);
  request.prompt.assign(100, 3);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  int64_t next = 0;
  for (const ProposeRequest& asked : drafter.requests()) {
    EXPECT_LE(asked.features.num_bytes(), 400);
    if (asked.features.empty()) continue;
    EXPECT_EQ(asked.features.first_position, next);
    next = asked.features.end_position();
  }
  EXPECT_GT(next, 100);
}

TEST(FeaturesTest, ADrafterThatRestartedIsFedAgain) {
  ToyCluster cluster(1);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  drafter.wanted = Taps({1, 2});
  drafter.Behave([&drafter] {
    return Behaviour{.lose_state = drafter.requests().size() == 3};
  });
  const auto request = ToyCluster::Request(60);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  EXPECT_EQ(drafter.last_features().first_position, 0);
  EXPECT_EQ(drafter.last_features().end_position(), RootOf(drafter));
}

TEST(FeaturesTest, ADrafterThatComesLateStartsLate) {
  ToyCluster cluster(2);
  FakeDraftEndpoint &early = *cluster.drafters[0], &late = *cluster.drafters[1];
  early.wanted = Taps({1});
  late.Behave([&late] {
    if (late.requests().size() == 3) late.wanted = Taps({2});
    return Behaviour{};
  });
  const auto request = ToyCluster::Request(60);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  EXPECT_GT(late.last_features().first_position, 5);
  EXPECT_EQ(late.last_features().end_position(), RootOf(late));
  EXPECT_EQ(early.last_features().end_position(), RootOf(early));
}

TEST(FeaturesTest, AnyOrderOfFaultsEndsWithTheRightFeaturesOrNone) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    ToyCluster cluster(2,
                       {.feature_limits = {.session_bytes = 200,
                                           .all_bytes = seed % 2 ? 0 : 100'000,
                                           .request_bytes = 300}});
    std::mt19937_64 random(seed);
    for (auto& drafter : cluster.drafters) {
      drafter->wanted = Taps({static_cast<int32_t>(random() % 3), 4});
      drafter->Behave([&random] {
        Behaviour behaviour;
        if (random() % 4 == 0) behaviour.delay = absl::Milliseconds(70);
        if (random() % 8 == 0) behaviour.error = absl::UnavailableError("off");
        behaviour.lose_state = random() % 8 == 0;
        return behaviour;
      });
    }
    cluster.verifier.Behave([&random] {
      FakeVerifyEndpoint::Behaviour behaviour;
      behaviour.lose_state = random() % 16 == 0;
      if (random() % 16 == 0) behaviour.lost_reply = absl::UnavailableError("");
      if (random() % 8 == 0) {
        behaviour.corrupt = [](VerifyResult& verify_result) {
          verify_result.features = {};
        };
      }
      return behaviour;
    });
    const auto request = ToyCluster::Request(80);
    EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request))
        << "seed " << seed;
  }
}

TEST(FeaturesTest, FeaturesThatDoNotFitCostNothingButThemselves) {
  ToyCluster cluster(1);
  cluster.drafters[0]->wanted = Taps({1});
  cluster.verifier.Behave(
      FakeVerifyEndpoint::Behaviour{.corrupt = [](VerifyResult& verify_result) {
        ++verify_result.features.width;
      }});
  const auto request = ToyCluster::Request();
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  EXPECT_TRUE(cluster.drafters[0]->last_features().empty());
}

}  // namespace
}  // namespace espalier::coordinator
