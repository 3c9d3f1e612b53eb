#include "verifier/verifier_metrics.h"

namespace espalier::verifier {
namespace {

prometheus::Histogram& AddStage(prometheus::Registry& registry,
                                const std::string& stage) {
  return AddHistogram(registry,
                      {.name = "espalier_step_stage_seconds",
                       .help = "Time of one stage of a round",
                       .labels = {{"stage", stage}}},
                      StageSecondsBuckets());
}

void ObserveSeconds(prometheus::Histogram& histogram, absl::Duration time) {
  histogram.Observe(absl::ToDoubleSeconds(time));
}

}  // namespace

VerifierMetrics::VerifierMetrics(prometheus::Registry& registry,
                                 const std::string& model)
    : queue_seconds(AddStage(registry, "verify_queue")),
      prefill_seconds(AddStage(registry, "prefill")),
      forward_seconds(AddStage(registry, "verify_forward")),
      accept_seconds(AddStage(registry, "accept")),
      commit_seconds(AddStage(registry, "commit")),
      sessions_open(AddGauge(registry, {.name = "espalier_sessions_open",
                                        .help = "Sequences whose state is held",
                                        .labels = {{"role", "verifier"}}})),
      kv_usage_ratio(
          AddGauge(registry, {.name = "espalier_kv_cache_usage_ratio",
                              .help = "Share of the K/V pool in use, 0 to 1"})),
      kv_tokens_used(
          AddGauge(registry, {.name = "espalier_kv_tokens_used",
                              .help = "Tokens of the K/V pool in use"})),
      kv_tokens_total(AddGauge(
          registry, {.name = "espalier_kv_tokens_total",
                     .help = "Tokens that the K/V pool has room for"})),
      near_ties(AddCounter(
          registry, {.name = "espalier_near_ties_total",
                     .help = "Emitted tokens that rounding could have decided",
                     .labels = {{"model", model}}})) {}

void VerifierMetrics::ObserveRound(const Verdict& verdict) {
  const VerifyTimings& timings = verdict.timings;
  ObserveSeconds(queue_seconds, timings.queue);
  if (timings.prefill > absl::ZeroDuration()) {
    ObserveSeconds(prefill_seconds, timings.prefill);
  }
  ObserveSeconds(forward_seconds, timings.forward);
  ObserveSeconds(accept_seconds, timings.accept);
  ObserveSeconds(commit_seconds, timings.commit);
  near_ties.Increment(verdict.near_ties);
}

}  // namespace espalier::verifier
