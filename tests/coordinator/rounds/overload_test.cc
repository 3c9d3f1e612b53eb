// More requests than there is room for, on a clock that stands still while code
// runs: latencies are sums of the verifier's delays.
#include <deque>
#include <string>
#include <vector>

#include "common/speculation/request_errors.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kRunning = 8;

struct Outcome {
  std::vector<absl::Duration> latencies;  // of those served, queue included
  int refused = 0;                        // at once

  absl::Duration mean() const {
    absl::Duration sum;
    for (absl::Duration latency : latencies) sum += latency;
    return sum / static_cast<double>(latencies.size());
  }
};

// Equal requests arrive one by one, `load` times as many as can be served with
// `kRunning` at a time, for the time that twenty of them take.
Outcome Serve(int load, int64_t max_queued) {
  ToyCluster cluster(1, {.max_sessions = kRunning, .max_queued = max_queued});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  GenerationRequest request = ToyCluster::Request(90);
  const absl::Duration alone = cluster.Run(request).report.timing.total;

  Outcome outcome;
  std::deque<Seen> all;
  for (int i = 0; i < 20 * kRunning * load; ++i) {
    request.request_id = std::to_string(i);
    const Seen& seen = all.emplace_back();
    cluster.Start(request, &all.back());
    cluster.executor.RunUntilIdle();
    if (seen.num_finishes > 0) {
      EXPECT_TRUE(absl::IsResourceExhausted(seen.status)) << seen.status;
      EXPECT_TRUE(RetryAfter(seen.status).has_value());
      ++outcome.refused;
    }
    EXPECT_LE(cluster.verifier.num_open(), kRunning);
    cluster.executor.AdvanceBy(alone / (load * kRunning));
  }
  cluster.executor.AdvanceBy(absl::Hours(1));
  cluster.ExpectNothingOpen();
  for (const Seen& seen : all) {
    if (!seen.status.ok()) continue;
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    outcome.latencies.push_back(seen.report.timing.total);
  }
  EXPECT_EQ(outcome.latencies.size() + outcome.refused, all.size());
  return outcome;
}

TEST(OverloadTest, WithoutAQueueTheAcceptedAreAsFastAsWhereThereIsRoom) {
  const Outcome room = Serve(1, 0), overload = Serve(10, 0);
  EXPECT_EQ(room.refused, 0);
  // One of ten is admitted, apart from the first ones.
  EXPECT_GT(overload.refused, 20 * kRunning * 8);
  EXPECT_GE(overload.latencies.size(), 20 * kRunning);
  for (absl::Duration latency : overload.latencies) {
    EXPECT_EQ(latency, room.latencies[0]);
  }
}

TEST(OverloadTest, AQueueOfHalfTheRunningCostsTheAcceptedHalfTheirLatency) {
  const Outcome room = Serve(1, kRunning / 2);
  const Outcome overload = Serve(10, kRunning / 2);
  EXPECT_EQ(room.refused, 0);
  EXPECT_GT(overload.refused, 20 * kRunning * 8);
  EXPECT_GT(overload.mean(), 1.3 * room.mean());
  EXPECT_LE(overload.mean(), 1.5 * room.mean());
}

}  // namespace
}  // namespace espalier::coordinator
