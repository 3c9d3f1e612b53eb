// Prometheus metrics. Every component creates its metrics once, at start, from
// a registry that is passed to it, and keeps references to them in a struct.
// Increments are lock-free and fit the hot path; AddCounter, AddGauge and
// AddHistogram take locks and do not.
#ifndef ESPALIER_COMMON_OBS_METRICS_H_
#define ESPALIER_COMMON_OBS_METRICS_H_

#include <map>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace espalier {

struct MetricSpec {
  std::string name;  // espalier_<thing>_<unit>; counters end in _total
  std::string help;
  // Low cardinality only: never a request, session or token.
  std::map<std::string, std::string> labels = {};
};

prometheus::Counter& AddCounter(prometheus::Registry& registry,
                                const MetricSpec& spec);
prometheus::Gauge& AddGauge(prometheus::Registry& registry,
                            const MetricSpec& spec);
prometheus::Histogram& AddHistogram(
    prometheus::Registry& registry, const MetricSpec& spec,
    const prometheus::Histogram::BucketBoundaries& buckets);

// Returns buckets for the seconds of one stage of a round: 0.1 ms, doubled up
// to 3.3 s.
prometheus::Histogram::BucketBoundaries StageSecondsBuckets();
// Returns buckets for the seconds of a whole request: 1 ms .. 10 min.
prometheus::Histogram::BucketBoundaries RequestSecondsBuckets();

}  // namespace espalier

#endif  // ESPALIER_COMMON_OBS_METRICS_H_
