#include "coordinator/api/generate_calls.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/call_deadline.h"
#include "common/spec/trace_context.h"

namespace espalier::coordinator {
namespace {

// As the specification has it, a malformed one is ignored.
std::string TraceparentOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kTraceparent);
  if (found == metadata.end()) return "";
  const std::string value(found->second.data(), found->second.size());
  return IsTraceparent(value) ? value : "";
}

absl::Status Aborted() { return absl::CancelledError("aborted"); }

}  // namespace

GenerateCalls::GenerateCalls(Options options)
    : options_(std::move(options)),
      queue_({.max_bytes = 4 * options_.model.max_prompt_bytes}) {}

absl::StatusOr<GenerationRequest> GenerateCalls::Check(
    const v1::GenerateRequest& request,
    const grpc::CallbackServerContext& context) const {
  ASSIGN_OR_RETURN(GenerationRequest parsed,
                   ParseGenerateRequest(request, options_.model,
                                        CallDeadline(context.raw_deadline())));
  RETURN_IF_ERROR(
      options_.priority_limits.Check(parsed.priority, context.peer()));
  const std::optional<VerifierInfo> verifier = options_.verifier_info();
  if (!verifier) return parsed;  // not connected yet: the coordinator refuses
  RETURN_IF_ERROR(CheckPrompt(request, options_.model, verifier->max_context));
  return parsed;
}

GenerateReactor* GenerateCalls::Start(
    grpc::CallbackServerContext* context, size_t message_bytes,
    absl::StatusOr<v1::GenerateRequest> request, bool with_text,
    const NewFormat& format) {
  if (!request.ok()) return Refuse(request.status());
  auto parsed = Check(*request, *context);
  if (!parsed.ok()) return Refuse(parsed.status());
  const absl::Status open = options_.coordinator->CheckOpen(waiting_.size());
  if (!open.ok()) return GenerateReactor::Refuse(open);
  parsed->traceparent = TraceparentOf(*context);
  if (!with_text && request->stop().empty()) parsed->new_text = nullptr;
  auto* reactor = new GenerateReactor({.format = format(*parsed),
                                       .num_outputs = parsed->num_outputs,
                                       .context = context,
                                       .request_bytes = message_bytes,
                                       .unread = &unread_});
  const PromptQueue::Prompt prompt = {.bytes = PromptBytes(*request),
                                      .work = PromptWork(*request),
                                      .is_chat = request->has_chat()};
  const WaitingRequests::Entry waiting = waiting_.Add(parsed->request_id);
  const absl::Status queued = queue_.Post(
      prompt, [this, reactor, waiting, request = *std::move(request),
               parsed = *std::move(parsed)]() mutable {
        Encode(request, std::move(parsed), waiting, *reactor);
      });
  if (!queued.ok()) {
    waiting_.Leave(waiting, [] {});
    Fail(*reactor, queued);
  }
  return reactor;
}

void GenerateCalls::Encode(const v1::GenerateRequest& request,
                           GenerationRequest parsed,
                           WaitingRequests::Entry waiting,
                           GenerateReactor& reactor) {
  auto ready = WithPrompt(request, std::move(parsed), waiting, reactor);
  const bool left = waiting_.Leave(waiting, [&] {
    if (ready.ok()) reactor.Begin(*options_.coordinator, *std::move(ready));
  });
  if (!left) {
    Fail(reactor, Aborted());
  } else if (!ready.ok()) {
    Fail(reactor, ready.status());
  }
}

GenerateReactor* GenerateCalls::Refuse(const absl::Status& status) const {
  options_.coordinator->CountUnstarted(status);
  return GenerateReactor::Refuse(status);
}

void GenerateCalls::Fail(GenerateReactor& reactor,
                         const absl::Status& status) const {
  options_.coordinator->CountUnstarted(status);
  reactor.Fail(status);
}

absl::StatusOr<GenerationRequest> GenerateCalls::WithPrompt(
    const v1::GenerateRequest& request, GenerationRequest parsed,
    WaitingRequests::Entry waiting, const GenerateReactor& reactor) const {
  if (waiting_.IsAborted(waiting)) return Aborted();
  if (reactor.IsCancelled()) {
    return absl::CancelledError("cancelled by the client");
  }
  if (absl::Now() >= parsed.deadline) {
    return absl::DeadlineExceededError("deadline of the request");
  }
  ASSIGN_OR_RETURN(parsed.prompt,
                   options_.encode_prompt(request, options_.model));
  return parsed;
}

void GenerateCalls::Abort(const std::string& request_id,
                          absl::AnyInvocable<void(bool was_live) &&> done) {
  const bool waited = waiting_.Abort(request_id);
  options_.coordinator->Abort(
      request_id, [waited, done = std::move(done)](bool was_live) mutable {
        std::move(done)(waited || was_live);
      });
}

}  // namespace espalier::coordinator
