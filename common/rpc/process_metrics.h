#ifndef ESPALIER_COMMON_RPC_PROCESS_METRICS_H_
#define ESPALIER_COMMON_RPC_PROCESS_METRICS_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace espalier {

// The usual process_* metrics, read from /proc at each scrape, and
// espalier_build_info. Thread-safe.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PROCESS_METRICS_H_
