#ifndef ESPALIER_VERIFIER_VERIFIER_METRICS_H_
#define ESPALIER_VERIFIER_VERIFIER_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/obs/metrics.h"
#include "common/spec/messages.h"
#include "common/spec/pass_cost.h"
#include "verifier/flow/rule_comparison.h"

namespace espalier::verifier {

// What a verifier exports. Made once, from a registry that outlives it.
struct VerifierMetrics {
  // One gauge for every point of `costs`.
  VerifierMetrics(prometheus::Registry& registry, const std::string& model,
                  absl::Span<const PassCost> costs);

  // One observation of every stage that the round went through; a shared pass
  // is observed by each of its rounds, in full (see VerifyTimings).
  void ObserveRound(const Verdict& verdict);
  // The walk stood in for a rule.
  void CountRefusal(const std::string& rule, const std::string& reason);
  // Of a round that rules were compared in.
  void ObserveRules(absl::Span<const RuleLength> lengths);
  void ObservePass(int64_t sessions, int64_t rows);
  // REQUIRES: the row counts that it was made with.
  void SetPassCosts(absl::Span<const PassCost> costs);

  prometheus::Registry& registry;
  prometheus::Histogram& queue_seconds;
  prometheus::Histogram& prefill_seconds;
  prometheus::Histogram& forward_seconds;
  prometheus::Histogram& accept_seconds;
  prometheus::Histogram& commit_seconds;
  prometheus::Gauge& sessions_open;
  prometheus::Gauge& kv_usage_ratio;
  prometheus::Gauge& kv_tokens_used;
  prometheus::Gauge& kv_tokens_capacity;
  prometheus::Counter& near_ties;
  prometheus::Counter& feature_bytes;
  prometheus::Histogram& batch_size;
  prometheus::Histogram& batch_tokens;
  std::vector<prometheus::Gauge*> pass_costs;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFIER_METRICS_H_
