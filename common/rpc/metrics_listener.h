#ifndef ESPALIER_COMMON_RPC_METRICS_LISTENER_H_
#define ESPALIER_COMMON_RPC_METRICS_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "prometheus/registry.h"

class CivetServer;

namespace espalier {

// What is served over HTTP to GET requests of one path.
struct HttpPage {
  std::string path;  // e.g. "/status.json"
  std::string content_type;
  // The body, for what follows the question mark (may be empty). Called from
  // two threads of the listener.
  std::function<std::string(absl::string_view query)> body;
};

// Serves /metrics over HTTP, a registry and the process's own metrics, and the
// pages of its service.
class MetricsListener {
 public:
  struct Options {
    std::string address;  // HOST:PORT; port 0 takes a free one
    // Shared because it is collected until the listener is gone.
    std::shared_ptr<prometheus::Registry> registry;
    std::vector<HttpPage> pages = {};
  };
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      Options options);
  ~MetricsListener();

  const std::string& address() const { return address_; }

 private:
  class PageHandler;

  MetricsListener();

  std::string address_;
  std::vector<std::unique_ptr<PageHandler>> handlers_;
  std::unique_ptr<CivetServer> server_;  // last: its threads use the handlers
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_METRICS_LISTENER_H_
