#ifndef ESPALIER_COMMON_RPC_METRICS_LISTENER_H_
#define ESPALIER_COMMON_RPC_METRICS_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "prometheus/exposer.h"
#include "prometheus/registry.h"

namespace espalier {

class ProcessMetrics;

// Serves /metrics over HTTP: a registry and the process's own metrics.
class MetricsListener {
 public:
  // `address` is HOST:PORT; port 0 takes a free one.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      absl::string_view address,
      std::shared_ptr<prometheus::Registry> registry);
  ~MetricsListener();

  const std::string& address() const { return address_; }

 private:
  MetricsListener();

  std::string address_;
  // Shared because that is what the exposer takes.
  std::shared_ptr<prometheus::Registry> registry_;
  std::shared_ptr<ProcessMetrics> process_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_METRICS_LISTENER_H_
