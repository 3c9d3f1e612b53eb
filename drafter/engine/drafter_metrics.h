#ifndef ESPALIER_DRAFTER_ENGINE_DRAFTER_METRICS_H_
#define ESPALIER_DRAFTER_ENGINE_DRAFTER_METRICS_H_

#include <string>

#include "common/obs/metrics.h"

namespace espalier::drafter {

// Holds what one drafter counts. The registry that made them must outlive them.
struct DrafterMetrics {
  prometheus::Histogram& compute_seconds;  // one observation per Draft call
  prometheus::Counter& proposed_nodes;     // roots excluded
  prometheus::Gauge& sessions_open;        // sequences held
};

// `drafter`: the instance's name, the label of all its metrics.
DrafterMetrics MakeDrafterMetrics(prometheus::Registry& registry,
                                  const std::string& drafter);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_ENGINE_DRAFTER_METRICS_H_
