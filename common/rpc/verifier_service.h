#ifndef ESPALIER_COMMON_RPC_VERIFIER_SERVICE_H_
#define ESPALIER_COMMON_RPC_VERIFIER_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/access_gate.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/messages.h"
#include "espalier/v1/verifier.pb.h"
#include "grpcpp/impl/service_type.h"

namespace espalier {

// Reads the request in a message: its tokens are below the vocabulary's size,
// its tree is valid. INVALID_ARGUMENT names the field and the limit.
absl::StatusOr<VerifyRequest> ReadVerify(const v1::VerifyTree& message,
                                         const VerifierInfo& info);

// Serves a VerifyEndpoint over gRPC. Checks each message against `info` before
// the endpoint sees it. Serves clients that `gate` admits. Thread-safe.
// Outlives the grpc::Server; the endpoint outlives the service.
class VerifierService {
 public:
  VerifierService(
      VerifyEndpoint& endpoint, const VerifierInfo& info,
      std::shared_ptr<const AccessGate> gate = std::make_shared<AccessGate>());
  ~VerifierService();

  // For ServerRunner.
  grpc::Service* calls() const;
  // Drains for ServerRunner: see ServerStreams::Drain.
  void Drain(absl::Time deadline);

 private:
  class Calls;

  const std::unique_ptr<Calls> calls_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_VERIFIER_SERVICE_H_
