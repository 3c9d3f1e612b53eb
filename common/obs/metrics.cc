#include "common/obs/metrics.h"

namespace espalier {

prometheus::Counter& AddCounter(prometheus::Registry& registry,
                                const MetricSpec& spec) {
  return prometheus::BuildCounter()
      .Name(spec.name)
      .Help(spec.help)
      .Register(registry)
      .Add(spec.labels);
}

prometheus::Gauge& AddGauge(prometheus::Registry& registry,
                            const MetricSpec& spec) {
  return prometheus::BuildGauge()
      .Name(spec.name)
      .Help(spec.help)
      .Register(registry)
      .Add(spec.labels);
}

prometheus::Histogram& AddHistogram(
    prometheus::Registry& registry, const MetricSpec& spec,
    const prometheus::Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram()
      .Name(spec.name)
      .Help(spec.help)
      .Register(registry)
      .Add(spec.labels, buckets);
}

prometheus::Histogram::BucketBoundaries StageSecondsBuckets() {
  prometheus::Histogram::BucketBoundaries buckets;
  for (double bound = 1e-4; bound < 4; bound *= 2) buckets.push_back(bound);
  return buckets;
}

prometheus::Histogram::BucketBoundaries RequestSecondsBuckets() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 320, 600};
}

}  // namespace espalier
