#include "coordinator/rounds/warm_up.h"

#include <set>

#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

constexpr absl::Duration kPassTime = absl::Milliseconds(10);

class WarmUpTest : public testing::Test {
 protected:
  WarmUpTest() { TakeTime(cluster_); }

  static void TakeTime(ToyCluster& cluster) {
    cluster.verifier.Behave({.delay = kPassTime});
    for (auto& drafter : cluster.drafters) {
      drafter->Behave({.delay = absl::Milliseconds(2)});
    }
  }

  static Coordinator::Options Options() {
    Coordinator::Options options;
    options.warm_up_text = {3, 1, 4, 1, 5};
    return options;
  }
  static GenerationRequest Request() {
    GenerationRequest request = ToyCluster::Request(/*max_tokens=*/100);
    request.speculation.strategy = "budgeted";
    return request;
  }
  bool IsWarm() {
    return cluster_.coordinator->AwaitWarm(absl::InfinitePast());
  }

  ToyCluster cluster_{2, Options()};
};

TEST_F(WarmUpTest, TheFirstRequestFindsWhatPays) {
  cluster_.executor.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(IsWarm());
  const Seen warm = cluster_.Run(Request());
  ToyCluster cold(2);
  TakeTime(cold);
  const Seen other = cold.Run(Request());
  EXPECT_EQ(warm.tokens, other.tokens);
  EXPECT_LT(warm.report.spec.num_spec_steps, other.report.spec.num_spec_steps);
  EXPECT_LE(warm.report.spec.plain_steps, 1);
}

TEST_F(WarmUpTest, AsksEachDrafterAloneAndThenAllBetweenPlainDecoding) {
  cluster_.executor.AdvanceBy(absl::Seconds(5));
  std::set<uint64_t> first, second;
  for (const auto& r : cluster_.drafters[0]->requests()) {
    first.insert(r.update.sequence.number);
  }
  for (const auto& r : cluster_.drafters[1]->requests()) {
    second.insert(r.update.sequence.number);
  }
  EXPECT_EQ(first.size(), 4u) << "alone and together, greedy and sampled";
  EXPECT_EQ(second.size(), 4u);
  std::set<uint64_t> both = first;
  both.insert(second.begin(), second.end());
  EXPECT_EQ(both.size(), 6u);
}

TEST_F(WarmUpTest, TheFirstRequestCutsItShort) {
  cluster_.executor.AdvanceBy(absl::Milliseconds(45));
  EXPECT_FALSE(IsWarm());
  EXPECT_GT(cluster_.verifier.num_open(), 0);
  const size_t before = cluster_.verifier.requests().size();
  const Seen seen = cluster_.Run(Request());  // expects that nothing is open
  EXPECT_TRUE(IsWarm());
  size_t of_warm_up = 0;
  for (const VerifyRequest& r : cluster_.verifier.requests()) {
    of_warm_up += r.update.sequence.number >> 63;
  }
  EXPECT_EQ(of_warm_up, before);
  EXPECT_EQ(seen.tokens, cluster_.PlainText(Request()));
}

TEST_F(WarmUpTest, WaitsForTheVerifierAndEndsInTime) {
  const std::optional<VerifierInfo> info = cluster_.info;
  cluster_.info.reset();
  cluster_.executor.AdvanceBy(absl::Seconds(60));
  EXPECT_TRUE(cluster_.verifier.requests().empty());
  cluster_.info = info;
  cluster_.verifier.Behave({.delay = absl::Seconds(1)});
  cluster_.executor.AdvanceBy(absl::Seconds(3));
  EXPECT_TRUE(IsWarm());
  cluster_.ExpectNothingOpen();
}

TEST_F(WarmUpTest, ItsSessionsAreNobodysRequests) {
  cluster_.executor.AdvanceBy(absl::Seconds(5));
  EXPECT_FALSE(cluster_.verifier.requests().empty());
  EXPECT_EQ(cluster_.coordinator->journal().Requests().size(), 0u);
  for (const auto& family : cluster_.metrics.Collect()) {
    if (family.name != "espalier_generation_tokens_total" &&
        family.name != "espalier_drafter_asked_rounds_total") {
      continue;
    }
    for (const auto& metric : family.metric) {
      EXPECT_EQ(metric.counter.value, 0) << family.name;
    }
  }
}

TEST_F(WarmUpTest, ADrafterThatHangsIsNotWaitedForWithoutEnd) {
  cluster_.drafters[0]->Behave({.delay = absl::Hours(1)});
  cluster_.executor.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(IsWarm());
  EXPECT_TRUE(cluster_.Run(Request()).status.ok());
}

TEST(NoWarmUpTest, IsOffWithoutAText) {
  ToyCluster cluster(1);
  cluster.executor.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(cluster.coordinator->AwaitWarm(absl::InfinitePast()));
  EXPECT_TRUE(cluster.verifier.requests().empty());
}

}  // namespace
}  // namespace espalier::coordinator
