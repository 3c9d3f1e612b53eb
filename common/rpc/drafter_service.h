#ifndef ESPALIER_COMMON_RPC_DRAFTER_SERVICE_H_
#define ESPALIER_COMMON_RPC_DRAFTER_SERVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/access_gate.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/messages.h"
#include "espalier/v1/drafter.pb.h"
#include "grpcpp/impl/service_type.h"

namespace espalier {

// Reads the request in a message and in the parts that preceded it. Its tokens
// are below the vocabulary's size, its budget within the drafter's limits.
// INVALID_ARGUMENT names the field and the limit.
absl::StatusOr<ProposeRequest> ReadPropose(
    const v1::Propose& message, const std::vector<v1::DraftRequest>& parts,
    const DrafterInfo& info);

// Serves a DraftEndpoint over gRPC. Checks what a message claims against `info`
// before the endpoint sees it; serves only clients that `gate` admits.
// Thread-safe. Outlives the grpc::Server; the endpoint outlives the service.
class DrafterService {
 public:
  DrafterService(
      DraftEndpoint& endpoint, const DrafterInfo& info,
      std::shared_ptr<const AccessGate> gate = std::make_shared<AccessGate>());
  ~DrafterService();

  // For ServerRunner.
  grpc::Service* calls() const;
  // Drains for ServerRunner: see ServerStreams::Drain.
  void Drain(absl::Time deadline);

 private:
  class Calls;

  const std::unique_ptr<Calls> calls_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_DRAFTER_SERVICE_H_
