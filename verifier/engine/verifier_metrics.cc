#include "verifier/engine/verifier_metrics.h"

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

// Buckets for the size of one pass.
prometheus::Histogram& AddPassHistogram(prometheus::Registry& registry,
                                        const std::string& name,
                                        const std::string& help,
                                        const std::string& model) {
  return AddHistogram(
      registry, {.name = name, .help = help, .labels = {{"model", model}}},
      {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024});
}

void ObserveSeconds(prometheus::Histogram& histogram, absl::Duration time) {
  histogram.Observe(absl::ToDoubleSeconds(time));
}

}  // namespace

VerifierMetrics::VerifierMetrics(prometheus::Registry& made_from,
                                 const std::string& model,
                                 absl::Span<const PassCost> costs)
    : registry(made_from),
      queue_seconds(AddStage(registry, "verify_queue")),
      prefill_seconds(AddStage(registry, "prefill")),
      forward_seconds(AddStage(registry, "verify_forward")),
      accept_seconds(AddStage(registry, "accept")),
      commit_seconds(AddStage(registry, "compact")),
      sessions_open(AddGauge(registry, {.name = "espalier_sessions_open",
                                        .help = "Sequences whose state is held",
                                        .labels = {{"role", "verifier"}}})),
      kv_usage_ratio(
          AddGauge(registry, {.name = "espalier_kv_cache_usage_ratio",
                              .help = "Share of the K/V pool in use, 0 to 1",
                              .labels = {{"model", model}}})),
      device_memory_ratio(AddGauge(
          registry, {.name = "espalier_device_memory_usage_ratio",
                     .help = "Share of the GPU's memory in use, by all "
                             "programs, 0 to 1; 0 on a CPU",
                     .labels = {{"model", model}}})),
      kv_tokens_used(
          AddGauge(registry, {.name = "espalier_kv_tokens_used",
                              .help = "Tokens of the K/V pool in use"})),
      kv_tokens_capacity(AddGauge(
          registry, {.name = "espalier_kv_tokens_capacity",
                     .help = "Tokens that the K/V pool has room for"})),
      sessions_without_room(AddGauge(
          registry, {.name = "espalier_kv_sessions_waiting",
                     .help = "Sequences whose requests wait for K/V room"})),
      preemptions(AddCounter(
          registry, {.name = "espalier_kv_preemptions_total",
                     .help = "Sequences that gave their K/V room to older ones "
                             "and are computed again",
                     .labels = {{"model", model}}})),
      kv_tokens_cached(AddGauge(
          registry,
          {.name = "espalier_kv_tokens_cached",
           .help = "Tokens of the K/V pool that no sequence uses, kept for "
                   "those that begin alike"})),
      prefix_queries(
          AddCounter(registry, {.name = "espalier_prefix_cache_queries_total",
                                .help = "Tokens looked for in the prefix cache",
                                .labels = {{"model", model}}})),
      prefix_hits(AddCounter(
          registry, {.name = "espalier_prefix_cache_hits_total",
                     .help = "Tokens whose K/V came from the prefix cache",
                     .labels = {{"model", model}}})),
      prefix_evictions(
          AddCounter(registry, {.name = "espalier_prefix_cache_evictions_total",
                                .help = "Tokens that left the prefix cache",
                                .labels = {{"model", model}}})),
      near_ties(AddCounter(
          registry, {.name = "espalier_verifier_near_ties_total",
                     .help = "Emitted tokens that rounding could have decided",
                     .labels = {{"model", model}}})),
      feature_bytes(
          AddCounter(registry, {.name = "espalier_verifier_feature_bytes_total",
                                .help = "Hidden states sent to coordinators",
                                .labels = {{"model", model}}})),
      batch_size(AddPassHistogram(registry, "espalier_verify_batch_size",
                                  "Sessions in one forward pass", model)),
      batch_tokens(AddPassHistogram(registry, "espalier_verify_batch_tokens",
                                    "Rows in one forward pass", model)) {
  for (const PassCost& cost : costs) {
    pass_costs.push_back(&AddGauge(
        registry,
        {.name = "espalier_verifier_forward_seconds",
         .help = "What a forward pass over so many tree rows takes",
         .labels = {{"model", model}, {"rows", std::to_string(cost.rows)}}}));
  }
  SetPassCosts(costs);
}

void VerifierMetrics::ObserveRound(const VerifyResult& verify_result) {
  const VerifyTimings& timings = verify_result.timings;
  ObserveSeconds(queue_seconds, timings.queue);
  if (timings.prefill > absl::ZeroDuration()) {
    ObserveSeconds(prefill_seconds, timings.prefill);
  }
  ObserveSeconds(forward_seconds, timings.forward);
  ObserveSeconds(accept_seconds, timings.accept);
  ObserveSeconds(commit_seconds, timings.commit);
  near_ties.Increment(verify_result.near_ties);
  feature_bytes.Increment(
      static_cast<double>(verify_result.features.num_bytes()));
}

void VerifierMetrics::CountFallback(const std::string& rule,
                                    const std::string& reason) {
  AddCounter(registry,
             {.name = "espalier_verifier_rule_fallbacks_total",
              .help = "Rounds that the walk decided in place of the rule that "
                      "was asked for",
              .labels = {{"rule", rule}, {"reason", reason}}})
      .Increment();
}

void VerifierMetrics::ObserveRules(absl::Span<const RuleLength> lengths) {
  for (const RuleLength& length : lengths) {
    AddCounter(registry,
               {.name = "espalier_verifier_rule_compared_rounds_total",
                .help = "Rounds in which it was worked out what the "
                        "rule would accept",
                .labels = {{"rule", length.rule}}})
        .Increment();
    AddCounter(registry,
               {.name = "espalier_verifier_rule_expected_tokens_total",
                .help = "Tokens that the rule would have accepted of these "
                        "rounds' trees, in expectation, bonus excluded",
                .labels = {{"rule", length.rule}}})
        .Increment(length.accepted);
  }
}

void VerifierMetrics::ObservePass(int64_t sessions, int64_t rows) {
  batch_size.Observe(static_cast<double>(sessions));
  batch_tokens.Observe(static_cast<double>(rows));
}

void VerifierMetrics::SetPassCosts(absl::Span<const PassCost> costs) {
  for (size_t i = 0; i < pass_costs.size(); ++i) {
    pass_costs[i]->Set(absl::ToDoubleSeconds(costs[i].time));
  }
}

}  // namespace espalier::verifier
