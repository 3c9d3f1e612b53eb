#ifndef ESPALIER_COORDINATOR_API_GENERATE_CALLS_H_
#define ESPALIER_COORDINATOR_API_GENERATE_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/spec/messages.h"
#include "coordinator/api/answer_format.h"
#include "coordinator/api/generate_reactor.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/priority_limits.h"
#include "coordinator/coordinator.h"
#include "coordinator/prompt_queue.h"
#include "coordinator/unread_streams.h"
#include "coordinator/waiting_requests.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// The Generate calls of all client services, from a parsed message to a
// started request. A request is refused by cheap checks (its size, whether
// there is a verifier and a place) before its prompt is tokenized on a separate
// thread. Borrows all it is given; thread-safe.
class GenerateCalls {
 public:
  struct Options {
    Coordinator* coordinator = nullptr;
    ServedModel model;
    // Description of the verifier, once one has been connected.
    std::function<std::optional<VerifierInfo>()> verifier_info;
    // The most urgent priority that clients may ask for.
    PriorityLimits priority_limits;
    // Runs on a thread of its own; see EncodePrompt.
    std::function<absl::StatusOr<std::vector<TokenId>>(
        const v1::GenerateRequest&, const ServedModel&)>
        encode_prompt = EncodePrompt;
  };
  explicit GenerateCalls(Options options);

  const ServedModel& model() const { return options_.model; }

  // How the answer to an accepted request is written.
  using NewFormat =
      std::function<std::unique_ptr<AnswerFormat>(const GenerationRequest&)>;
  // Starts a call, or ends it with the error that `request` is. `bytes`: of the
  // message that gRPC keeps until the call ends. `with_text`: whether the
  // format needs the outputs' text.
  GenerateReactor* Start(grpc::CallbackServerContext* context, size_t bytes,
                         absl::StatusOr<v1::GenerateRequest> request,
                         bool with_text, const NewFormat& format);

  // Ends the requests with this id. `done` is told whether there were any, on
  // any thread.
  void Abort(const std::string& request_id,
             absl::AnyInvocable<void(bool was_live) &&> done);

 private:
  // Counts and refuses a request that the coordinator does not see.
  GenerateReactor* Refuse(const absl::Status& status) const;
  // Parses and checks a request without tokenizing its prompt.
  absl::StatusOr<GenerationRequest> Check(
      const v1::GenerateRequest& request,
      const grpc::CallbackServerContext& context) const;
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
  PromptQueue queue_;  // last: its threads use the rest
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATE_CALLS_H_
