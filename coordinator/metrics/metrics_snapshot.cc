#include "coordinator/metrics/metrics_snapshot.h"

#include <cmath>

namespace espalier::coordinator {

double QuantileOf(const MetricsSnapshot::Observed& seen, double quantile) {
  const double rank = quantile * static_cast<double>(seen.sample_count);
  double lower_bound = 0, below = 0;
  for (const prometheus::ClientMetric::Bucket& bucket : seen.bucket) {
    const double up_to = static_cast<double>(bucket.cumulative_count);
    if (up_to >= rank && up_to > below) {
      if (std::isinf(bucket.upper_bound)) return lower_bound;
      return lower_bound + (bucket.upper_bound - lower_bound) * (rank - below) /
                               (up_to - below);
    }
    lower_bound = bucket.upper_bound;
    below = up_to;
  }
  return lower_bound;
}

}  // namespace espalier::coordinator
