#ifndef ESPALIER_COMMON_RPC_PEER_SERVICE_H_
#define ESPALIER_COMMON_RPC_PEER_SERVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/access_gate.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/messages.h"
#include "espalier/v1/drafter.pb.h"
#include "espalier/v1/verifier.pb.h"
#include "grpcpp/impl/service_type.h"

namespace espalier {

// An endpoint, served over gRPC to a coordinator. Thread-safe. Outlives the
// grpc::Server.
class PeerService {
 public:
  virtual ~PeerService() = default;

  // For ServerRunner.
  virtual grpc::Service* calls() = 0;
  // Drains for ServerRunner: see ServerStreams::Drain.
  virtual void Drain(absl::Time deadline) = 0;
};

// Check what a message claims against `info` before the endpoint sees it; serve
// only clients that `gate` admits. The endpoint outlives the service.
std::unique_ptr<PeerService> NewDrafterService(
    DraftEndpoint& endpoint, const DrafterInfo& info,
    std::shared_ptr<const AccessGate> gate = std::make_shared<AccessGate>());
std::unique_ptr<PeerService> NewVerifierService(
    VerifyEndpoint& endpoint, const VerifierInfo& info,
    std::shared_ptr<const AccessGate> gate = std::make_shared<AccessGate>());

// Reads the request in a message and in the parts that preceded it. Its tokens
// are below the vocabulary's size, its budget within the drafter's limits.
// INVALID_ARGUMENT names the field and the limit.
absl::StatusOr<ProposeRequest> ReadPropose(
    const v1::Propose& message, const std::vector<v1::DraftRequest>& parts,
    const DrafterInfo& info);

// Reads the request in a message: its tokens are below the vocabulary's size,
// its tree is valid. INVALID_ARGUMENT names the field and the limit.
absl::StatusOr<VerifyRequest> ReadVerify(const v1::VerifyTree& message,
                                         const VerifierInfo& info);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_PEER_SERVICE_H_
