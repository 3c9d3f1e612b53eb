#ifndef ESPALIER_COORDINATOR_API_INFERENCE_SERVICE_H_
#define ESPALIER_COORDINATOR_API_INFERENCE_SERVICE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/spec/messages.h"
#include "coordinator/api/generate_reactor.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/coordinator.h"
#include "coordinator/prompt_queue.h"
#include "coordinator/unread_streams.h"
#include "coordinator/waiting_requests.h"
#include "espalier/v1/inference.grpc.pb.h"

namespace espalier::coordinator {

// Methods whose requests have content get raw bytes: see read_message.h.
using InferenceMethods = v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_Abort<
        v1::Inference::WithCallbackMethod_GetModelInfo<
            v1::Inference::WithCallbackMethod_GetServerInfo<
                v1::Inference::WithCallbackMethod_GetLoad<
                    v1::Inference::Service>>>>>;

// The client API over a Coordinator: converts, forwards, returns. A request is
// refused by cheap checks (its size, whether there is a verifier and a place)
// before its prompt is tokenized on a separate thread. Borrows all it is given;
// thread-safe.
class InferenceService final : public InferenceMethods {
 public:
  struct Options {
    Coordinator* coordinator = nullptr;
    ServedModel model;
    std::vector<std::string> strategies;
    // Description of the verifier, once one has been connected.
    std::function<std::optional<VerifierInfo>()> verifier_info;
    // Fills in the state of verifier and drafters.
    std::function<void(v1::GetServerInfoResponse&)> describe_peers;
    // Runs on a thread of its own; see EncodePrompt.
    std::function<absl::StatusOr<std::vector<TokenId>>(
        const v1::GenerateRequest&, const ServedModel&)>
        encode_prompt = EncodePrompt;
  };

  explicit InferenceService(Options options);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* message) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* message,
                                  grpc::ByteBuffer* response) override;
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
  // Counts and refuses a request that the coordinator does not see.
  GenerateReactor* Refuse(const absl::Status& status) const;
  // Parses and checks a request without tokenizing its prompt.
  absl::StatusOr<GenerationRequest> Check(const v1::GenerateRequest& request,
                                          absl::Time deadline) const;
  // Runs on a thread of the queue.
  void Encode(const v1::GenerateRequest& request, GenerationRequest parsed,
              WaitingRequests::Entry waiting, GenerateReactor& reactor);
  void Fail(GenerateReactor& reactor, const absl::Status& status) const;
  // The parsed request with its prompt, or why it is not to be started.
  absl::StatusOr<GenerationRequest> WithPrompt(
      const v1::GenerateRequest& request, GenerationRequest parsed,
      WaitingRequests::Entry waiting, const GenerateReactor& reactor) const;

  const Options options_;
  UnreadStreams unread_{{}};
  WaitingRequests waiting_;
  const absl::Time start_time_;
  PromptQueue queue_;  // last: its threads use the rest
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_INFERENCE_SERVICE_H_
