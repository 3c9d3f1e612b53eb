#ifndef ESPALIER_COORDINATOR_VLLM_VLLM_ENGINE_SERVICE_H_
#define ESPALIER_COORDINATOR_VLLM_VLLM_ENGINE_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/vllm/vllm_service.h"
#include "vllm_engine.grpc.pb.h"

namespace espalier::coordinator {

// Methods whose requests have content get raw bytes: see read_message.h. Those
// that are not overridden are UNIMPLEMENTED.
using VllmMethods =
    vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_Generate<
        vllm::grpc::engine::VllmEngine::WithRawCallbackMethod_Abort<
            vllm::grpc::engine::VllmEngine::WithCallbackMethod_Embed<
                vllm::grpc::engine::VllmEngine::WithCallbackMethod_HealthCheck<
                    vllm::grpc::engine::VllmEngine::
                        WithCallbackMethod_FlushCache<vllm::grpc::engine::VllmEngine::WithCallbackMethod_StartProfile<
                            vllm::
                                grpc::engine::VllmEngine::
                                    WithCallbackMethod_StopProfile<vllm::grpc::engine::VllmEngine::WithCallbackMethod_GetModelInfo<
                                        vllm::
                                            grpc::engine::VllmEngine::WithCallbackMethod_GetServerInfo<
                                                vllm::
                                                    grpc::engine::VllmEngine::WithCallbackMethod_GetLoads<
                                                        vllm::
                                                            grpc::engine::VllmEngine::WithCallbackMethod_GetTokenizer<
                                                                vllm::
                                                                    grpc::engine::VllmEngine::WithCallbackMethod_SubscribeKvEvents<
                                                                        vllm::
                                                                            grpc::engine::VllmEngine::
                                                                                Service>>>>>>>>>>>>;

// vllm.grpc.engine.VllmEngine over a Coordinator, so that gateways made for
// vLLM serve this one: Generate, Abort, HealthCheck, GetModelInfo,
// GetServerInfo, GetLoads and GetTokenizer. The gateway renders chat templates,
// tokenizes and detokenizes. Borrows all it is given; thread-safe.
class VllmEngineService final : public VllmMethods {
 public:
  // `archive`: of the tokenizer's files, or why there is none.
  VllmEngineService(VllmServiceOptions options,
                    absl::StatusOr<std::string> archive);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* message) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* message,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* HealthCheck(
      grpc::CallbackServerContext* context,
      const vllm::grpc::engine::HealthCheckRequest* request,
      vllm::grpc::engine::HealthCheckResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(
      grpc::CallbackServerContext* context,
      const vllm::grpc::engine::GetModelInfoRequest* request,
      vllm::grpc::engine::GetModelInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const vllm::grpc::engine::GetServerInfoRequest* request,
      vllm::grpc::engine::GetServerInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetLoads(
      grpc::CallbackServerContext* context,
      const vllm::grpc::engine::GetLoadsRequest* request,
      vllm::grpc::engine::GetLoadsResponse* response) override;
  grpc::ServerWriteReactor<smg::grpc::common::GetTokenizerChunk>* GetTokenizer(
      grpc::CallbackServerContext* context,
      const smg::grpc::common::GetTokenizerRequest* request) override;

 private:
  const VllmServiceOptions options_;
  const absl::StatusOr<std::string> archive_;
  const std::string archive_sha256_;  // hexadecimal; empty: no archive
  const absl::Time start_time_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_VLLM_VLLM_ENGINE_SERVICE_H_
