#ifndef ESPALIER_COORDINATOR_LOCAL_LOCAL_SERVER_H_
#define ESPALIER_COORDINATOR_LOCAL_LOCAL_SERVER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/reload.h"
#include "common/base/serial_executor.h"
#include "common/otlp/span_exporter.h"
#include "common/rpc/server_runner.h"
#include "coordinator/coordinator_server.h"
#include "espalier/v1/config.pb.h"
#include "verifier/node/node_engines.h"

namespace espalier::local {

// Verifier, drafters and coordinator in this process: the classes of the
// services, with direct calls instead of wires.
class LocalServer {
 public:
  // Loads the model and listens. Errors name the field, file or address.
  // on_model_lost: see VerifyEngine::Options. choose_addresses: called when the
  // model is loaded; may change where `config` listens.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(
      const v1::ServeConfig& config,
      std::function<void(const absl::Status&)> on_model_lost = nullptr,
      const std::function<absl::Status()>& choose_addresses = nullptr);
  ~LocalServer();

  ServerRunner& runner() { return *runner_; }
  // Address of the API over HTTP; empty: none.
  std::string http_address() const { return http_ ? http_->address() : ""; }
  bool http_has_tls() const { return http_ && http_->has_tls(); }
  // Has `reload` read files of callers again, while this object lives.
  void Follow(Reload& reload) { coordinator_->Follow(reload, http_.get()); }
  // Waits until the warm-up is over, or until the deadline.
  void AwaitWarm(absl::Time deadline) { coordinator_->AwaitWarm(deadline); }

 private:
  LocalServer() = default;
  coordinator::Peers AsPeers();
  void Describe(v1::GetServerInfoResponse& response) const;

  // In the order of construction. Destroyed in reverse order, so no object
  // outlives the objects that it calls.
  std::shared_ptr<prometheus::Registry> metrics_ =
      std::make_shared<prometheus::Registry>();
  std::unique_ptr<SpanExporter> spans_;  // null: not configured
  SerialExecutor executor_{"coordinator"};
  node::NodeEngines engines_;
  std::unique_ptr<coordinator::CoordinatorServer> coordinator_;
  std::unique_ptr<coordinator::HttpServer> http_;  // null: not configured
  std::unique_ptr<ServerRunner> runner_;
  std::unique_ptr<ServerRunner>
      admin_;  // null: no operators' address is configured
};

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_LOCAL_SERVER_H_
