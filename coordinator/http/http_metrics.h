#ifndef ESPALIER_COORDINATOR_HTTP_HTTP_METRICS_H_
#define ESPALIER_COORDINATOR_HTTP_HTTP_METRICS_H_

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/http/answer.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {

// Metrics of the requests over HTTP, by route and status. Outlives the answers
// that it counts. Thread-safe.
class HttpMetrics {
 public:
  explicit HttpMetrics(std::shared_ptr<prometheus::Registry> registry)
      : registry_(std::move(registry)) {}

  // Returns `answer`, which is counted when it ends. `route`: one of few names.
  std::unique_ptr<http::Answer> Count(absl::string_view route,
                                      std::unique_ptr<http::Answer> answer);

 private:
  class CountedAnswer;

  // The metrics of a route.
  struct OfRoute {
    prometheus::Histogram* seconds = nullptr;
    absl::flat_hash_map<int, prometheus::Counter*> by_status = {};
  };
  // `status`: 0 if the client left before it was known.
  void Add(const std::string& route, int status, double seconds);

  const std::shared_ptr<prometheus::Registry> registry_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, OfRoute> routes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_HTTP_METRICS_H_
