// Metrics of a scrape after requests with a known course.
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "prometheus/metric_family.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

using Labels = std::map<std::string, std::string>;

// Returns a counter's or gauge's value, a histogram's sum; nullopt: no such
// series.
std::optional<double> Value(const ToyCluster& cluster, const std::string& name,
                            const Labels& labels) {
  for (const prometheus::MetricFamily& family : cluster.metrics.Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      Labels found;
      for (const auto& label : metric.label) found[label.name] = label.value;
      if (found != labels) continue;
      switch (family.type) {
        case prometheus::MetricType::Counter:
          return metric.counter.value;
        case prometheus::MetricType::Gauge:
          return metric.gauge.value;
        default:
          return metric.histogram.sample_sum;
      }
    }
  }
  return std::nullopt;
}

const Labels kModel = {{"model", "toy"}};

TEST(CoordinatorMetricsTest, CountsWhatTheReportCounts) {
  ToyCluster cluster(1);
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(4)});
  cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
  cluster.Run(ToyCluster::Request(18));
  const Labels by_rule = {
      {"model", "toy"}, {"strategy", "union"}, {"rule", "walk"}};
  const std::string stem = "espalier_spec_decode_num_";
  EXPECT_EQ(Value(cluster, stem + "drafts_total", by_rule), 2);
  EXPECT_EQ(Value(cluster, stem + "draft_tokens_total", by_rule), 16);
  EXPECT_EQ(Value(cluster, stem + "accepted_tokens_total", by_rule), 16);
  EXPECT_EQ(Value(cluster, stem + "emitted_tokens_total", by_rule), 18);
  for (const char* position : {"0", "7"}) {
    EXPECT_EQ(
        Value(
            cluster, stem + "accepted_tokens_per_pos_total",
            {{"model", "toy"}, {"strategy", "union"}, {"position", position}}),
        2);
  }
  EXPECT_EQ(Value(cluster, "espalier_drafter_accepted_tokens_total",
                  {{"model", "toy"}, {"drafter", "d0"}}),
            16);
  EXPECT_EQ(Value(cluster, "espalier_drafter_requests_total",
                  {{"drafter", "d0"}, {"outcome", "used"}}),
            2);
  EXPECT_EQ(Value(cluster, stem + "max_nodes_total", by_rule), 30);
  EXPECT_DOUBLE_EQ(
      *Value(cluster, "espalier_drafter_wire_seconds", {{"drafter", "d0"}}),
      0.008);
  EXPECT_EQ(Value(cluster, "espalier_prompt_tokens_total", kModel), 5);
  EXPECT_EQ(Value(cluster, "espalier_generation_tokens_total", kModel), 18);
  EXPECT_EQ(
      Value(cluster, "espalier_requests_total",
            {{"model", "toy"}, {"code", "OK"}, {"finish_reason", "length"}}),
      1);
  EXPECT_DOUBLE_EQ(
      *Value(cluster, "espalier_step_stage_seconds", {{"stage", "draft_wait"}}),
      0.008);
  EXPECT_DOUBLE_EQ(
      *Value(cluster, "espalier_step_stage_seconds", {{"stage", "wire"}}),
      0.020);
  EXPECT_DOUBLE_EQ(
      *Value(cluster, "espalier_time_to_first_token_seconds", kModel), 0.014);
  EXPECT_DOUBLE_EQ(
      *Value(cluster, "espalier_inter_chunk_latency_seconds", kModel), 0.014);
  EXPECT_DOUBLE_EQ(
      *Value(cluster, "espalier_time_per_output_token_seconds", kModel),
      0.014 / 9);
  EXPECT_DOUBLE_EQ(*Value(cluster, "espalier_request_duration_seconds", kModel),
                   0.028);
}

TEST(CoordinatorMetricsTest, ADraftersOwnWordOfItsTimeIsBounded) {
  for (const absl::Duration claimed : {absl::Hours(1), -absl::Hours(1)}) {
    ToyCluster cluster(1);
    cluster.drafters[0]->Behave(
        {.delay = absl::Milliseconds(4),
         .corrupt = [claimed](Proposal& p) { p.compute_time = claimed; }});
    cluster.Run(ToyCluster::Request(18));
    const Labels labels = {{"drafter", "d0"}};
    const double wire =
        *Value(cluster, "espalier_drafter_wire_seconds", labels);
    EXPECT_DOUBLE_EQ(wire, claimed > absl::ZeroDuration() ? 0 : 0.008);
  }
}

TEST(CoordinatorMetricsTest, CountsEachFaultOfADrafter) {
  ToyCluster cluster(2);
  cluster.drafters[0]->Behave({.delay = kHeld});
  cluster.drafters[1]->Behave(
      {.corrupt = [](Proposal& proposal) { ++proposal.round; }});
  cluster.Run(ToyCluster::Request(5));
  auto outcomes = [&](const char* drafter, const char* outcome) {
    return Value(cluster, "espalier_drafter_requests_total",
                 {{"drafter", drafter}, {"outcome", outcome}});
  };
  EXPECT_EQ(outcomes("d0", "timeout"), 1);
  EXPECT_EQ(outcomes("d0", "skipped"), 3);
  EXPECT_EQ(outcomes("d1", "malformed"), 1);
  auto degraded = [&](const char* reason) {
    return Value(cluster, "espalier_degraded_steps_total",
                 {{"model", "toy"}, {"reason", reason}});
  };
  EXPECT_EQ(degraded("malformed"), 1);
  EXPECT_EQ(degraded("all_late"), 3);
  EXPECT_EQ(degraded("no_drafter"), 0);

  cluster.drafters[0]->Behave(
      {.delay = kHeld, .part = FakeDraftEndpoint::FirstNodes(1)});
  cluster.Run(ToyCluster::Request(5));
  EXPECT_EQ(outcomes("d0", "partial"), 1);
  EXPECT_EQ(outcomes("d0", "timeout"), 1);
}

TEST(CoordinatorMetricsTest, GaugesFollowTheLoadAndReturnToZero) {
  ToyCluster cluster(1, {.max_sessions = 1, .max_queued = 1});
  cluster.verifier.Behave({.delay = kHeld});
  Seen seen[3];
  Coordinator::Ticket tickets[3];
  for (int i = 0; i < 3; ++i) {
    GenerationRequest request = ToyCluster::Request();
    request.request_id = std::to_string(i);
    tickets[i] = cluster.Start(request, &seen[i]);
  }
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(Value(cluster, "espalier_requests_in_flight", kModel), 1);
  EXPECT_EQ(Value(cluster, "espalier_requests_queued", kModel), 1);
  EXPECT_EQ(Value(cluster, "espalier_sessions_open", {{"role", "coordinator"}}),
            1);
  EXPECT_EQ(Value(cluster, "espalier_requests_rejected_total",
                  {{"reason", "queue_full"}}),
            1);
  for (const auto ticket : tickets) cluster.coordinator->Cancel(ticket);
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(Value(cluster, "espalier_requests_in_flight", kModel), 0);
  EXPECT_EQ(Value(cluster, "espalier_requests_queued", kModel), 0);
  EXPECT_EQ(Value(cluster, "espalier_requests_total",
                  {{"model", "toy"},
                   {"code", "CANCELLED"},
                   {"finish_reason", "cancelled"}}),
            2);
}

}  // namespace
}  // namespace espalier::coordinator
