#ifndef ESPALIER_COMMON_RPC_METRICS_LISTENER_H_
#define ESPALIER_COMMON_RPC_METRICS_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/http_connections.h"
#include "common/rpc/http_request.h"
#include "prometheus/registry.h"

namespace espalier {

// A page that is served over HTTP to GET requests of one path.
struct HttpPage {
  std::string path;  // e.g. "/status.json"
  std::string content_type;
  // Returns the body for a query, the text after the question mark (may be
  // empty). Runs on the listener's thread.
  std::function<std::string(absl::string_view query)> body;
};

// The text of /metrics: a registry and the process's own metrics.
std::string MetricsText(prometheus::Registry& registry);

// Serves HTTP: /metrics with a registry and the process's own metrics, and the
// pages of the service. On one thread, with HttpConnections' limits, which a
// general HTTP server of the system does not have: any number of slow clients
// delays nobody.
class MetricsListener {
 public:
  struct Options {
    std::string address;  // HOST:PORT; port 0 takes a free one
    // Shared because the listener collects from it until it is destroyed.
    std::shared_ptr<prometheus::Registry> registry;
    // A request for a page whose Host is not an IP address, "localhost" or one
    // of `page_hosts` gets 403, so that no web site can read pages by letting
    // its own name resolve to this address (DNS rebinding).
    std::vector<HttpPage> pages = {};
    std::vector<std::string> page_hosts = {};
  };
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      Options options);
  ~MetricsListener();

  const std::string& address() const { return address_; }

 private:
  explicit MetricsListener(Options options);
  void Run();
  void Accept(int listener, HttpConnections& connections);
  std::string Respond(const absl::StatusOr<HttpRequest>& request) const;

  const Options options_;
  std::string address_;
  std::vector<int> sockets_;
  const int stop_;  // an eventfd, readable when it is to stop
  std::thread thread_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_METRICS_LISTENER_H_
