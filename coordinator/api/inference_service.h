#ifndef ESPALIER_COORDINATOR_API_INFERENCE_SERVICE_H_
#define ESPALIER_COORDINATOR_API_INFERENCE_SERVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/rpc/access_gate.h"
#include "common/speculation/messages.h"
#include "coordinator/api/generate_calls.h"
#include "coordinator/rounds/coordinator.h"
#include "espalier/v1/inference.grpc.pb.h"

namespace espalier::coordinator {

// All methods get raw bytes: see read_message.h.
using InferenceMethods = v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_Abort<
        v1::Inference::WithRawCallbackMethod_GetModelInfo<
            v1::Inference::WithRawCallbackMethod_GetServerInfo<
                v1::Inference::WithRawCallbackMethod_GetLoad<
                    v1::Inference::Service>>>>>;

// The client API over a Coordinator: converts, forwards, returns. Borrows all
// it is given; thread-safe.
class InferenceService final : public InferenceMethods {
 public:
  struct Options {
    Coordinator* coordinator = nullptr;
    GenerateCalls* calls = nullptr;
    std::vector<std::string> strategies;
    // Description of the verifier, once one has been connected.
    std::function<std::optional<VerifierInfo>()> verifier_info;
    // Fills in the state of verifier and drafters.
    std::function<void(v1::GetServerInfoResponse&)> describe_peers;
    std::shared_ptr<const AccessGate> gate = std::make_shared<AccessGate>();
  };

  explicit InferenceService(Options options);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* message) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* message,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* message,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* message,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* message,
                                    grpc::ByteBuffer* response) override;

 private:
  absl::StatusOr<Principal> AdmitClient(
      const grpc::ServerContextBase& context) const;
  absl::StatusOr<v1::GetModelInfoResponse> ModelInfo() const;
  absl::StatusOr<v1::GetServerInfoResponse> ServerInfo() const;
  absl::StatusOr<v1::GetLoadResponse> Load() const;

  const Options options_;
  const absl::Time start_time_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_INFERENCE_SERVICE_H_
