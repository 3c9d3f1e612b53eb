#ifndef ESPALIER_COORDINATOR_COORDINATOR_SERVER_H_
#define ESPALIER_COORDINATOR_COORDINATOR_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/registry.h"
#include "common/model/model_identity.h"
#include "common/rpc/metrics_listener.h"
#include "common/rpc/server_runner.h"
#include "coordinator/admin_service.h"
#include "coordinator/coordinator.h"
#include "coordinator/inference_service.h"
#include "coordinator/status_report.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// Whom the coordinator works with, local or remote. Borrowed: outlives it.
struct Peers {
  std::vector<DrafterHandle> drafters;
  VerifyEndpoint* verifier = nullptr;
  // What the verifier says of itself, once one has been connected.
  std::function<std::optional<VerifierInfo>()> verifier_info;
  // Fills in the state of verifier and drafters.
  std::function<void(v1::GetServerInfoResponse&)> describe;
};

// A Coordinator with its policies and the client API in front of it.
class CoordinatorServer {
 public:
  struct Options {
    TargetIdentity target;
    uint64_t epoch = 0;            // random, drawn by the caller
    Executor* executor = nullptr;  // outlives the peers' last answers
    prometheus::Registry* metrics = nullptr;
  };
  // INVALID_ARGUMENT names the field.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Create(
      const v1::CoordinatorCoreConfig& config, Peers peers, Options options);

  // Ends what is live as UNAVAILABLE. No peer is called afterwards.
  ~CoordinatorServer();

  // For clients, and for operators.
  std::vector<ServerRunner::Service> Services();

  // The status page and what it shows, for ServerRunner. Valid while this is.
  std::vector<HttpPage> StatusPages() const;

  // Refuses new requests; returns when the last of the others is finished, or
  // at the deadline.
  void Drain(absl::Time deadline);

 private:
  CoordinatorServer(TargetIdentity target);

  const TargetIdentity target_;
  Registry<MergePolicy> policies_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<InferenceService> inference_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<StatusReport> status_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_COORDINATOR_SERVER_H_
