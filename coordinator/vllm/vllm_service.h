#ifndef ESPALIER_COORDINATOR_VLLM_VLLM_SERVICE_H_
#define ESPALIER_COORDINATOR_VLLM_VLLM_SERVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/spec/messages.h"
#include "coordinator/api/generate_calls.h"
#include "coordinator/rounds/coordinator.h"
#include "grpcpp/impl/service_type.h"

namespace espalier::coordinator {

inline constexpr char kVllmServiceName[] = "vllm.grpc.engine.VllmEngine";

// Borrowed: outlives the service.
struct VllmServiceOptions {
  Coordinator* coordinator = nullptr;
  GenerateCalls* calls = nullptr;
  // Description of the verifier, once one has been connected.
  std::function<std::optional<VerifierInfo>()> verifier_info;
  // Whether it is connected now. Called on any thread.
  std::function<bool()> verifier_is_ready = [] { return true; };
  // The model whose tokenizer is sent to gateways (TokenizerArtifacts).
  std::string model_path;
};

// The protocol of gateways made for vLLM, as a second service over the same
// coordinator. Null: this build has none (ESPALIER_VLLM).
std::unique_ptr<grpc::Service> NewVllmService(VllmServiceOptions options);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_VLLM_VLLM_SERVICE_H_
