#ifndef ESPALIER_COMMON_RPC_SERVER_RUNNER_H_
#define ESPALIER_COMMON_RPC_SERVER_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/metrics_listener.h"
#include "common/rpc/shutdown_signals.h"
#include "espalier/v1/config.pb.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"
#include "prometheus/registry.h"

namespace espalier {

// A gRPC server with what every service of Espalier has: several addresses,
// health, reflection, metrics, an orderly end. Thread-safe.
class ServerRunner {
 public:
  struct Service {
    std::string name;        // full: "espalier.v1.Verifier"
    grpc::Service* service;  // outlives the runner
  };
  struct Options {
    v1::ServerConfig config;
    std::vector<Service> services;
    std::shared_ptr<prometheus::Registry> registry;
    std::vector<HttpPage> pages = {};  // beside /metrics
    // Finishes running work and refuses new; returns when it is done or the
    // deadline passed. What still runs is cancelled then.
    std::function<void(absl::Time deadline)> drain;
  };

  // Listens, with health NOT_SERVING. Errors name the field or the address.
  static absl::StatusOr<std::unique_ptr<ServerRunner>> Start(Options options);
  // Stops at once.
  ~ServerRunner();

  // Where it listens, with the ports that were chosen for 0.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // Empty: no metrics.
  std::string metrics_address() const;

  // What health says of the server and of each service.
  void SetServing(bool serving);

  // Health NOT_SERVING, then Options::drain within the configured time, then
  // the end of everything. Blocks.
  void DrainAndStop();

 private:
  explicit ServerRunner(Options options);
  absl::Status Listen();
  absl::Status WriteAddressFile() const;
  absl::Duration drain_time() const;

  const Options options_;
  std::vector<std::string> addresses_;
  std::unique_ptr<MetricsListener> metrics_;  // null: none
  std::unique_ptr<grpc::Server> server_;
};

// The second half of every main: reports SERVING, waits for SIGTERM or SIGINT,
// drains. Returns the exit status.
int ServeUntilSignal(ServerRunner& runner, ShutdownSignals& signals);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_RUNNER_H_
