#ifndef ESPALIER_COMMON_RPC_SERVER_RUNNER_H_
#define ESPALIER_COMMON_RPC_SERVER_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/message.h"
#include "common/http/page_server.h"
#include "common/rpc/access_gate.h"
#include "common/rpc/connection_guard.h"
#include "common/rpc/connection_listener.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/server_tls.h"
#include "common/rpc/shutdown_signals.h"
#include "espalier/v1/config.pb.h"
#include "grpcpp/impl/service_type.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

// Their headers take a tenth of a second in each file.
namespace grpc {
class Server;
namespace experimental {
class ExternalConnectionAcceptor;
}  // namespace experimental
}  // namespace grpc

namespace espalier {

// A gRPC server with what every Espalier service has: several addresses,
// health, reflection, metrics, draining. Thread-safe.
class ServerRunner {
 public:
  struct Service {
    std::string name;        // full name, e.g. "espalier.v1.Verifier"
    grpc::Service* service;  // outlives the runner
  };
  struct Options {
    v1::ServerConfig config;
    std::vector<Service> services;
    std::shared_ptr<prometheus::Registry> registry;
    std::vector<http::Page> pages = {};  // in addition to /metrics
    // By which `services` admit callers. Also for the pages.
    std::shared_ptr<const AccessGate> gate = std::make_shared<AccessGate>();
    // The address of the process's HTTP listener. It goes to the log and the
    // address file; empty: there is none.
    std::string http_address = {};
    // Largest message in both directions. A larger one is RESOURCE_EXHAUSTED
    // before it is read; a compressed one is UNIMPLEMENTED, as its size is not
    // known.
    int max_message_bytes = kMaxPeerMessageBytes;
    // Calls of one connection at a time. A client is told this number; one that
    // opens more all the same is disconnected.
    int max_streams = 100;
    // Refuses new work and finishes running work; returns when that is done or
    // the deadline has passed. Calls that still run are then cancelled.
    std::function<void(absl::Time deadline)> drain = {};
  };

  // Starts to listen, with health NOT_SERVING. Errors name the field or the
  // address.
  static absl::StatusOr<std::unique_ptr<ServerRunner>> Start(Options options);
  // Checks that Start could listen on all addresses now, that of the metrics
  // among them, for services that
  // first load for a long time. Errors as Start's.
  static absl::Status CanListen(const v1::ServerConfig& config,
                                const AccessGate& gate = AccessGate());
  // Stops at once.
  ~ServerRunner();

  // The bound addresses; a port 0 is replaced by the one that was chosen.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // Empty: no metrics.
  const std::string& metrics_address() const { return metrics_address_; }
  // See OpenListeners.
  const std::vector<std::string>& open_listeners() const {
    return open_listeners_;
  }

  // Sets the health of the server and of each service.
  void SetServing(bool serving);

  // Sets health to NOT_SERVING, runs Options::drain within the configured time,
  // then stops the server. Blocks.
  void DrainAndStop();

 private:
  explicit ServerRunner(Options options);
  absl::Status OpenTls();
  absl::Status ServeMetrics();
  // Null: everybody may read the pages.
  std::function<bool(const http::Request&)> PagePermission() const;
  absl::Status Listen();
  void Take(int descriptor);
  void Tick();
  absl::Status StartServer();
  absl::Status WriteAddressFile() const;
  absl::Duration drain_time() const;

  const Options options_;
  std::vector<std::string> addresses_;
  std::string metrics_address_;
  std::vector<std::string> open_listeners_;
  std::unique_ptr<ServerTls> tls_;             // null: none
  prometheus::Gauge* tls_expires_ = nullptr;   // null: no TLS
  std::unique_ptr<http::PageServer> metrics_;  // null: none
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>
      tls_acceptor_;  // null: no TLS
  std::shared_ptr<ConnectionGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionListener> listener_;  // feeds acceptor_
};

// The second half of every main: reports SERVING, waits for SIGTERM or SIGINT,
// drains. Returns the exit status.
int ServeUntilSignal(ServerRunner& runner, ShutdownSignals& signals);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SERVER_RUNNER_H_
