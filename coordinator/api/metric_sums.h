#ifndef ESPALIER_COORDINATOR_API_METRIC_SUMS_H_
#define ESPALIER_COORDINATOR_API_METRIC_SUMS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "prometheus/metric_family.h"

namespace espalier::coordinator {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

// The value of a metric's label; empty: it has none.
std::string LabelOf(const prometheus::ClientMetric& metric,
                    absl::string_view name);

// Sums of a family's values by one label; a histogram counts by its sum.
std::map<std::string, double> SumBy(const MetricFamilies& families,
                                    absl::string_view name,
                                    absl::string_view label);

// The sum of a family's values.
double TotalOf(const MetricFamilies& families, absl::string_view name);

// Holds what was observed in a family of histograms, all labels together.
struct Observations {
  double count = 0;
  double sum = 0;
  std::vector<double> quantiles = {};  // [quantiles], ascending as asked
};

// Quantiles are estimated as Prometheus does it: linearly within a bucket;
// above the last bound, that bound. Without observations there are none.
Observations ObservationsOf(const MetricFamilies& families,
                            absl::string_view name,
                            absl::Span<const double> quantiles);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_METRIC_SUMS_H_
