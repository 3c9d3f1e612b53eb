#include "coordinator/metrics/metrics_snapshot.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/histogram.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Pair;

TEST(MetricsSnapshot, QuantilesLieInTheirBuckets) {
  prometheus::Histogram histogram({1, 2, 4});
  for (double value : {0.5, 1.5, 3.0, 9.0}) {
    for (int i = 0; i < 2; ++i) histogram.Observe(value);
  }
  const MetricsSnapshot::Observed seen = histogram.Collect().histogram;
  EXPECT_EQ(seen.sample_count, 8);
  // Two of eight observations in each bucket; the last has no upper end.
  EXPECT_EQ(QuantileOf(seen, 0.25), 1);
  EXPECT_EQ(QuantileOf(seen, 0.375), 1.5);
  EXPECT_EQ(QuantileOf(seen, 0.75), 4);
  EXPECT_EQ(QuantileOf(seen, 0.99), 4);
}

TEST(MetricsSnapshot, IsEmptyBeforeTheFirstRequest) {
  ToyCluster cluster(1);
  const MetricsSnapshot seen = cluster.coordinator->Counts();
  EXPECT_EQ(seen.all_rounds, 0);
  EXPECT_EQ(seen.request_duration.sample_count, 0);
  EXPECT_THAT(seen.requests, ElementsAre());
  EXPECT_THAT(seen.balance_seconds, ElementsAre(Pair("d0", 0)));
  ASSERT_EQ(seen.drafters.size(), 1);
  EXPECT_EQ(seen.drafters[0].requests.size(), 9);
  EXPECT_THAT(seen.drafters[0].ahead,
              ElementsAre(Pair("hit", 0), Pair("miss", 0), Pair("wasted", 0)));
}

TEST(MetricsSnapshot, TellsRoundsThatSpeculatedFromAllOthers) {
  ToyCluster cluster(2);
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(4)});
  cluster.drafters[1]->Behave(
      {.corrupt = [](Proposal& proposal) { ++proposal.round; }});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  cluster.Run(ToyCluster::Request(18));
  GenerationRequest plain = ToyCluster::Request(5);
  plain.speculation.enabled = false;
  cluster.Run(plain);
  cluster.Run({});  // has no id

  const MetricsSnapshot seen = cluster.coordinator->Counts();
  EXPECT_EQ(seen.speculated.drafts, 2);
  EXPECT_EQ(seen.speculated.draft_tokens, 16);
  EXPECT_EQ(seen.speculated.accepted_tokens, 16);
  EXPECT_EQ(seen.speculated.emitted_tokens, 18);
  EXPECT_EQ(seen.all_rounds, 2 + 5);
  EXPECT_EQ(seen.generated_tokens, 18 + 5);
  EXPECT_EQ(seen.degraded_rounds, 0);
  EXPECT_THAT(seen.requests,
              ElementsAre(Pair("INVALID_ARGUMENT", 1), Pair("OK", 2)));
  EXPECT_THAT(seen.rejected,
              IsSupersetOf({Pair("invalid", 1.0), Pair("queue_full", 0.0)}));
  EXPECT_DOUBLE_EQ(seen.stage_seconds.at("draft_wait"), 0.008);
  EXPECT_EQ(seen.stage_seconds.size(), 6);
  EXPECT_EQ(seen.request_duration.sample_count, 2);
  EXPECT_EQ(seen.drafters[0].asked_rounds, 2);
  EXPECT_EQ(seen.drafters[0].requests.at("used"), 2);
  EXPECT_EQ(seen.drafters[1].requests.at("malformed"), 1);
}

}  // namespace
}  // namespace espalier::coordinator
