#ifndef ESPALIER_COORDINATOR_COORDINATOR_SERVER_H_
#define ESPALIER_COORDINATOR_COORDINATOR_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/base/notification.h"
#include "common/base/registry.h"
#include "common/base/reload.h"
#include "common/http/page_server.h"
#include "common/model/files/model_identity.h"
#include "common/rpc/server_runner.h"
#include "coordinator/api/generate_calls.h"
#include "coordinator/api/local_generator.h"
#include "coordinator/api/status_report.h"
#include "coordinator/http/http_server.h"
#include "coordinator/rounds/coordinator.h"
#include "coordinator/tenants_config.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

class AdminService;
class InferenceService;

// The services that the coordinator works with, local or remote. Borrowed: must
// outlive it.
struct Peers {
  std::vector<DrafterHandle> drafters = {};
  VerifyEndpoint* verifier = nullptr;
  // Description of the verifier, once one has been connected.
  std::function<std::optional<VerifierInfo>()> verifier_info;
  // Returns true if it is connected now. Called on any thread.
  std::function<bool()> verifier_is_ready = [] { return true; };
  // Fills in the state of verifier and drafters.
  std::function<void(v1::GetServerInfoResponse&)> describe;
};

// A Coordinator with its merge policies, served by the client API.
class CoordinatorServer {
 public:
  struct Options {
    TargetIdentity target;
    uint64_t epoch = 0;            // random, sampled by the caller
    Executor* executor = nullptr;  // outlives the peers' last answers
    prometheus::Registry* metrics = nullptr;
    std::shared_ptr<AccessGate> gate = std::make_shared<AccessGate>();
    Tracing tracing = {};
  };
  // INVALID_ARGUMENT names the field.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Create(
      const v1::CoordinatorCoreConfig& config, Peers peers, Options options);

  // Ends live requests as UNAVAILABLE. No peer is called afterwards.
  ~CoordinatorServer();

  // For clients.
  std::vector<ServerRunner::Service> Services();

  // A separate server for operators; null if no address is given. This object
  // and `metrics` must outlive it.
  absl::StatusOr<std::unique_ptr<ServerRunner>> StartAdmin(
      absl::Span<const std::string> addresses, const v1::AdminConfig& config,
      std::shared_ptr<prometheus::Registry> metrics);
  // The API over HTTP; null if `listen` is empty. This object and `metrics`
  // must outlive it.
  absl::StatusOr<std::unique_ptr<HttpServer>> StartHttp(
      const std::string& listen, const v1::HttpConfig& config,
      std::shared_ptr<prometheus::Registry> metrics);
  // For ServerRunner: size of the largest request, and calls of one connection,
  // which may use all places.
  int max_message_bytes() const { return max_message_bytes_; }
  int max_streams() const;

  // The status page and its data, for ServerRunner. Valid while this object
  // lives.
  std::vector<http::Page> StatusPages() const;

  // Lets the status page warn of listeners that everybody may use.
  void ShowOpenListeners(absl::Span<const std::string> lines);

  // Has `reload` read again what names callers: the roles of `Options::gate`
  // and of operators, the tenants and, unless `http` is null, its keys. After
  // StartAdmin; this object and `http` outlive its runs.
  void Follow(Reload& reload, HttpServer* http);

  // Waits until the warm-up is over, or until the deadline.
  void AwaitWarm(absl::Time deadline) { coordinator_->AwaitWarm(deadline); }

  // Refuses new requests. Returns when the last of the others has finished, or
  // at the deadline; those that last longer end as UNAVAILABLE shortly before.
  // `http`, unless null, is drained with it.
  void Drain(absl::Time deadline, HttpServer* http);

 private:
  explicit CoordinatorServer(TargetIdentity target);

  const TargetIdentity target_;
  int max_message_bytes_ = 0;  // constant after Create
  Registry<MergePolicy> policies_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<TenantsFile> tenants_;
  std::shared_ptr<AccessGate> gate_;
  std::shared_ptr<AccessGate> admin_gate_;  // null: no Admin service
  std::unique_ptr<GenerateCalls> calls_;
  std::unique_ptr<LocalGenerator> generator_;
  std::unique_ptr<ApiContext> http_context_;  // without the metrics
  std::unique_ptr<InferenceService> inference_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<StatusReport> status_;
  Notification stopping_;
  std::jthread sampler_;  // of the status page's history
  std::jthread reader_;   // of tenants_, again
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_COORDINATOR_SERVER_H_
