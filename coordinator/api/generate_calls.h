#ifndef ESPALIER_COORDINATOR_API_GENERATE_CALLS_H_
#define ESPALIER_COORDINATOR_API_GENERATE_CALLS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/speculation/messages.h"
#include "coordinator/api/answer_stream.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/priority_limits.h"
#include "coordinator/api/prompt_queue.h"
#include "coordinator/api/unread_streams.h"
#include "coordinator/api/waiting_requests.h"
#include "coordinator/rounds/coordinator.h"
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
    // Is true if Caller::stated_tenant names callers without a name.
    bool tenant_metadata = false;
    bool paced = false;  // see Coordinator::Options::pace
    // Runs on a thread of its own; see EncodePrompt.
    std::function<absl::StatusOr<std::vector<TokenId>>(
        const v1::GenerateRequest&, const ServedModel&)>
        encode_prompt = EncodePrompt;
  };
  explicit GenerateCalls(Options options);

  const ServedModel& model() const { return options_.model; }

  // Answers that are finished and not read yet.
  UnreadStreams& unread() { return unread_; }

  // Is true if this caller is not told what drafts have brought.
  bool HidesRounds(bool is_operator) const {
    return options_.paced && !is_operator;
  }

  // Opens the stream of an accepted request, which lives until it gets its
  // Begin or Fail.
  using OpenStream = std::function<AnswerStream&(const RequestParams&)>;
  // Starts a call. An error: the call is refused, with the error that `request`
  // is or with another, and no stream was opened.
  absl::Status Start(const Caller& caller,
                     absl::StatusOr<v1::GenerateRequest> request,
                     const OpenStream& open);

  // Tokenizes the prompt of a request that is not run, for the model that it
  // names. `done` gets the tokens or an error as of Start, on any thread, once.
  void Tokenize(
      v1::GenerateRequest request,
      absl::AnyInvocable<void(absl::StatusOr<std::vector<TokenId>>) &&> done);

  // Ends the requests with this id. `done` is told whether there were any, on
  // any thread.
  void Abort(const std::string& request_id,
             absl::AnyInvocable<void(bool was_live) &&> done);

 private:
  // Returns the tenant of a call. INVALID_ARGUMENT: it states one that is not
  // in the list.
  absl::StatusOr<std::string> TenantOf(const Caller& caller) const;
  // Parses and checks a request without tokenizing its prompt.
  absl::StatusOr<RequestParams> Check(const v1::GenerateRequest& request,
                                      const Caller& caller) const;
  // Runs on a thread of the queue.
  void Encode(const v1::GenerateRequest& request, RequestParams params,
              WaitingRequests::Entry waiting, AnswerStream& stream);
  void Fail(AnswerStream& stream, const absl::Status& status) const;
  // Returns the request with its prompt, or why it is not to be started.
  absl::StatusOr<GenerationRequest> WithPrompt(
      const v1::GenerateRequest& request, RequestParams params,
      WaitingRequests::Entry waiting, const AnswerStream& stream) const;

  const Options options_;
  UnreadStreams unread_{{}};
  WaitingRequests waiting_;
  PromptQueue queue_;  // last: its threads use the rest
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATE_CALLS_H_
