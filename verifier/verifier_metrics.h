#ifndef ESPALIER_VERIFIER_VERIFIER_METRICS_H_
#define ESPALIER_VERIFIER_VERIFIER_METRICS_H_

#include <string>

#include "common/obs/metrics.h"
#include "common/spec/messages.h"

namespace espalier::verifier {

// What a verifier exports. Made once, from a registry that outlives it.
struct VerifierMetrics {
  VerifierMetrics(prometheus::Registry& registry, const std::string& model);

  // One observation of every stage that the round went through.
  void ObserveRound(const Verdict& verdict);

  prometheus::Histogram& queue_seconds;
  prometheus::Histogram& prefill_seconds;
  prometheus::Histogram& forward_seconds;
  prometheus::Histogram& accept_seconds;
  prometheus::Histogram& commit_seconds;
  prometheus::Gauge& sessions_open;
  prometheus::Gauge& kv_usage_ratio;
  prometheus::Gauge& kv_tokens_used;
  prometheus::Gauge& kv_tokens_total;
  prometheus::Counter& near_ties;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFIER_METRICS_H_
