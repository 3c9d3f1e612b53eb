// Operators' changes of drafters while requests run.
#include <cmath>
#include <utility>

#include "common/speculation/request_errors.h"
#include "prometheus/metric_family.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

absl::StatusOr<DrafterSettings> Set(ToyCluster& cluster,
                                    Coordinator::SettingsChange change) {
  absl::StatusOr<DrafterSettings> result = absl::UnknownError("no answer");
  cluster.coordinator->SetSettings(
      std::move(change), [&result](absl::StatusOr<DrafterSettings> settings) {
        result = settings;
      });
  cluster.executor.RunUntilIdle();
  return result;
}

// Observations of a drafter's accepted length, and their sum.
std::pair<double, double> AcceptedLengths(const ToyCluster& cluster,
                                          const std::string& drafter) {
  for (const prometheus::MetricFamily& family : cluster.metrics.Collect()) {
    if (family.name != "espalier_drafter_accepted_length") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (metric.label[0].value != drafter) continue;
      return {static_cast<double>(metric.histogram.sample_count),
              metric.histogram.sample_sum};
    }
  }
  return {};
}

TEST(DrafterSettingsTest, ShadowIsAskedAndJudgedButNeverVerified) {
  for (const char* strategy : {"union", "route", "budgeted"}) {
    ToyCluster cluster(2);
    ASSERT_TRUE(
        Set(cluster, {.drafter = "d1", .role = DrafterRole::kShadow}).ok());
    cluster.drafters[0]->Behave({.error = absl::UnavailableError("gone")});
    GenerationRequest request = ToyCluster::Request(30);
    request.speculation.strategy = strategy;
    const Seen seen = cluster.Run(request);
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    EXPECT_EQ(seen.report.spec.num_draft_tokens, 0);
    EXPECT_GT(cluster.drafters[1]->requests().size(), 20u);
    // Trees of 8 correct tokens, except the last ones.
    const auto [count, sum] = AcceptedLengths(cluster, "d1");
    EXPECT_GE(count, 20);
    EXPECT_GT(sum, 6 * count);
  }
}

// Its trees are there before the round goes on.
TEST(DrafterSettingsTest, ShadowIsNotVerifiedWhileOthersAreAwaited) {
  for (const char* strategy : {"single", "union", "budgeted"}) {
    ToyCluster cluster(2);
    ASSERT_TRUE(
        Set(cluster, {.drafter = "d1", .role = DrafterRole::kShadow}).ok());
    cluster.drafters[0]->Behave({.delay = absl::Milliseconds(5)});
    cluster.drafters[0]->DraftBy(
        [](const std::vector<TokenId>& text, const DraftBudget&) {
          return TokenTree::RootOnly(text.back());
        });
    GenerationRequest request = ToyCluster::Request(10);
    request.speculation.strategy = strategy;
    const Seen seen = cluster.Run(request);
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    EXPECT_EQ(seen.report.spec.num_draft_tokens, 0) << strategy;
    EXPECT_GE(cluster.drafters[1]->requests().size(), 9u);
  }
}

TEST(DrafterSettingsTest, RoundsDoNotWaitForAShadow) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(5)});
  ASSERT_TRUE(
      Set(cluster, {.drafter = "d0", .role = DrafterRole::kShadow}).ok());
  const Seen seen = cluster.Run(ToyCluster::Request(20));
  EXPECT_EQ(seen.report.timing.draft_wait, absl::ZeroDuration());
  EXPECT_EQ(seen.report.timing.total, 20 * absl::Milliseconds(10));
}

TEST(DrafterSettingsTest, PromotionAndRemovalTakeEffectInTheNextRound) {
  ToyCluster cluster(1);
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  ASSERT_TRUE(Set(cluster, {.drafter = "d0", .role = DrafterRole::kOff}).ok());
  Seen seen;
  cluster.Start(ToyCluster::Request(100), &seen);
  cluster.executor.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(seen.tokens.size(), 10u);
  EXPECT_TRUE(cluster.drafters[0]->requests().empty());
  ASSERT_TRUE(
      Set(cluster, {.drafter = "d0", .role = DrafterRole::kActive}).ok());
  cluster.executor.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(seen.tokens.size(), 11u + 9 * 9);
  ASSERT_TRUE(Set(cluster, {.drafter = "d0", .role = DrafterRole::kOff}).ok());
  cluster.executor.AdvanceBy(absl::Hours(1));
  EXPECT_EQ(seen.num_finishes, 1);
}

TEST(DrafterSettingsTest, WeightDecidesWhoseNodesComeFirst) {
  for (const double weight : {0.1, 10.0}) {
    ToyCluster cluster(2);
    cluster.drafters[1]->Behave({.corrupt = [](Proposal& p) {
      for (size_t i = 1; i < p.tree.tokens.size(); ++i) {
        p.tree.tokens[i] = (p.tree.tokens[i] + 1) % 50;
      }
    }});
    ASSERT_TRUE(Set(cluster, {.drafter = "d1", .weight = weight}).ok());
    GenerationRequest request = ToyCluster::Request(2);
    request.speculation.strategy = "budgeted";
    request.speculation.max_nodes = 1;
    const Seen seen = cluster.Run(request);
    EXPECT_EQ(seen.report.spec.num_accepted_draft_tokens, weight < 1 ? 1 : 0);
  }
}

TEST(DrafterSettingsTest, RefusesWhatMakesNoSense) {
  ToyCluster cluster(1);
  EXPECT_TRUE(absl::IsNotFound(Set(cluster, {.drafter = "d7"}).status()));
  for (const double weight : {0.0, -1.0, 1000.0, std::nan("")}) {
    const absl::Status status =
        Set(cluster, {.drafter = "d0", .weight = weight}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << weight;
    EXPECT_EQ(FieldOf(status), "weight");
  }
  EXPECT_EQ(cluster.coordinator->Drafters()[0].settings.weight, 1);
}

}  // namespace
}  // namespace espalier::coordinator
