#ifndef ESPALIER_COORDINATOR_METRICS_METRICS_SNAPSHOT_H_
#define ESPALIER_COORDINATOR_METRICS_METRICS_SNAPSHOT_H_

#include <map>
#include <string>
#include <vector>

#include "prometheus/client_metric.h"

namespace espalier::coordinator {

// Holds what the coordinator's metrics have counted since the start, for
// readers inside the process. Maps are by a label of the metric.
struct MetricsSnapshot {
  using ByLabel = std::map<std::string, double>;
  using Observed = prometheus::ClientMetric::Histogram;

  struct Rounds {
    double drafts = 0;  // verifications
    double draft_tokens = 0;
    double accepted_tokens = 0;
    double emitted_tokens = 0;
  };
  struct Drafter {
    double asked_rounds = 0;
    ByLabel requests = {};  // by DraftOutcome
    ByLabel ahead = {};     // by LookaheadOutcome
  };

  Rounds speculated = {};  // those of plain decoding excluded
  double all_rounds = 0;
  double degraded_rounds = 0;
  double generated_tokens = 0;
  ByLabel balance_seconds = {};  // by the drafters that were asked
  ByLabel stage_seconds = {};
  ByLabel requests = {};  // that have ended, by code
  ByLabel rejected = {};  // by RejectReason
  Observed time_to_first_token = {};
  Observed time_per_output_token = {};
  Observed request_duration = {};
  std::vector<Drafter> drafters = {};
};

// Estimates a quantile as Prometheus does it: linearly within a bucket; above
// the last bound, that bound. REQUIRES: something was observed.
double QuantileOf(const MetricsSnapshot::Observed& seen, double quantile);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_METRICS_METRICS_SNAPSHOT_H_
