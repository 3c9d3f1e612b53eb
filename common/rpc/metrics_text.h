#ifndef ESPALIER_COMMON_RPC_METRICS_TEXT_H_
#define ESPALIER_COMMON_RPC_METRICS_TEXT_H_

#include <string>

#include "prometheus/registry.h"

namespace espalier {

inline constexpr char kMetricsContentType[] =
    "text/plain; version=0.0.4; charset=utf-8";

// Returns the text of /metrics: a registry and the process's own metrics.
// Thread-safe.
std::string MetricsText(prometheus::Registry& registry);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_METRICS_TEXT_H_
