#ifndef ESPALIER_VERIFIER_ENGINE_VERIFIER_METRICS_H_
#define ESPALIER_VERIFIER_ENGINE_VERIFIER_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/obs/metrics.h"
#include "common/speculation/messages.h"
#include "common/speculation/pass_cost.h"
#include "verifier/flow/rule_comparison.h"

namespace espalier::verifier {

// The metrics of a verifier. Made once, from a registry that outlives it.
struct VerifierMetrics {
  // One gauge for every point of `costs`.
  VerifierMetrics(prometheus::Registry& registry, const std::string& model,
                  absl::Span<const PassCost> costs);

  // Observes every stage of the round once. Each round of a shared pass
  // observes the whole time of the pass (see VerifyTimings).
  void ObserveRound(const VerifyResult& verify_result);
  // The walk verified a round that `rule` did not support.
  void CountFallback(const std::string& rule, const std::string& reason);
  // Observes a round in which rules were compared.
  void ObserveRules(absl::Span<const RuleLength> lengths);
  void ObservePass(int64_t sessions, int64_t rows);
  // REQUIRES: the row counts given to the constructor.
  void SetPassCosts(absl::Span<const PassCost> costs);

  prometheus::Registry& registry;
  prometheus::Histogram& queue_seconds;
  prometheus::Histogram& prefill_seconds;
  prometheus::Histogram& forward_seconds;
  prometheus::Histogram& accept_seconds;
  prometheus::Histogram& commit_seconds;
  prometheus::Gauge& sessions_open;
  prometheus::Gauge& kv_usage_ratio;
  prometheus::Gauge& device_memory_ratio;
  prometheus::Gauge& kv_tokens_used;
  prometheus::Gauge& kv_tokens_capacity;
  prometheus::Gauge& sessions_without_room;
  prometheus::Counter& preemptions;
  prometheus::Gauge& kv_tokens_cached;
  prometheus::Counter& prefix_queries;
  prometheus::Counter& prefix_hits;
  prometheus::Counter& prefix_evictions;
  prometheus::Counter& near_ties;
  prometheus::Counter& feature_bytes;
  prometheus::Histogram& batch_size;
  prometheus::Histogram& batch_tokens;
  std::vector<prometheus::Gauge*> pass_costs;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_VERIFIER_METRICS_H_
