#include "coordinator/api/metric_sums.h"

#include <cmath>

namespace espalier::coordinator {
namespace {

// buckets: upper bound -> observations up to it, all of them.
double QuantileOf(const std::map<double, double>& buckets, double count,
                  double quantile) {
  const double rank = quantile * count;
  double lower_bound = 0, below = 0;
  for (const auto& [bound, up_to] : buckets) {
    if (up_to >= rank && up_to > below) {
      if (std::isinf(bound)) return lower_bound;
      return lower_bound +
             (bound - lower_bound) * (rank - below) / (up_to - below);
    }
    lower_bound = bound;
    below = up_to;
  }
  return lower_bound;
}

}  // namespace

std::string LabelOf(const prometheus::ClientMetric& metric,
                    absl::string_view name) {
  for (const auto& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

std::map<std::string, double> SumBy(const MetricFamilies& families,
                                    absl::string_view name,
                                    absl::string_view label) {
  std::map<std::string, double> sums;
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      const bool is_histogram =
          family.type == prometheus::MetricType::Histogram;
      // A gauge or a counter: the other one is 0.
      sums[LabelOf(metric, label)] +=
          is_histogram ? metric.histogram.sample_sum
                       : metric.counter.value + metric.gauge.value;
    }
  }
  return sums;
}

double TotalOf(const MetricFamilies& families, absl::string_view name) {
  double total = 0;
  for (const auto& [label, value] : SumBy(families, name, "")) total += value;
  return total;
}

Observations ObservationsOf(const MetricFamilies& families,
                            absl::string_view name,
                            absl::Span<const double> quantiles) {
  Observations seen;
  std::map<double, double> buckets;
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      seen.count += static_cast<double>(metric.histogram.sample_count);
      seen.sum += metric.histogram.sample_sum;
      for (const auto& bucket : metric.histogram.bucket) {
        buckets[bucket.upper_bound] +=
            static_cast<double>(bucket.cumulative_count);
      }
    }
  }
  if (seen.count == 0) return seen;
  for (const double quantile : quantiles) {
    seen.quantiles.push_back(QuantileOf(buckets, seen.count, quantile));
  }
  return seen;
}

}  // namespace espalier::coordinator
