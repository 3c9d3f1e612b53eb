#ifndef ESPALIER_COORDINATOR_INFERENCE_SERVICE_H_
#define ESPALIER_COORDINATOR_INFERENCE_SERVICE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/spec/messages.h"
#include "coordinator/coordinator.h"
#include "coordinator/generate_request.h"
#include "espalier/v1/inference.grpc.pb.h"

namespace espalier::coordinator {

// The client API over a Coordinator: converts, forwards, returns. Borrows all
// it is given; thread-safe.
class InferenceService final : public v1::Inference::CallbackService {
 public:
  struct Options {
    Coordinator* coordinator = nullptr;
    ServedModel model;
    std::vector<std::string> strategies;
    // Of the verifier, once one has been connected.
    std::function<std::optional<VerifierInfo>()> verifier_info;
    // Fills in the state of verifier and drafters.
    std::function<void(v1::GetServerInfoResponse&)> describe_peers;
  };

  explicit InferenceService(Options options);

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context,
      const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const v1::AbortRequest* request,
                                  v1::AbortResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(
      grpc::CallbackServerContext* context,
      const v1::GetModelInfoRequest* request,
      v1::GetModelInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::GetServerInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest* request,
                                    v1::GetLoadResponse* response) override;

 private:
  const Options options_;
  const absl::Time start_time_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_INFERENCE_SERVICE_H_
