#include "coordinator/api/generate_calls.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

PromptQueue::Prompt SizeOf(const v1::GenerateRequest& request) {
  return {.bytes = PromptBytes(request),
          .work = PromptWork(request),
          .is_chat = request.has_chat()};
}

absl::Status Aborted() { return absl::CancelledError("aborted"); }

}  // namespace

GenerateCalls::GenerateCalls(Options options)
    : options_(std::move(options)),
      queue_({.max_bytes = 4 * options_.model.max_prompt_bytes}) {}

absl::StatusOr<std::string> GenerateCalls::TenantOf(
    const Caller& caller) const {
  if (!options_.tenant_metadata || !caller.tenant.empty()) return caller.tenant;
  const std::string& stated = caller.stated_tenant;
  if (stated.empty() || options_.coordinator->tenants().Lists(stated)) {
    return stated;
  }
  return FieldError(kTenantMetadata,
                    absl::StrCat("\"", Printable(stated, 128),
                                 "\" is not in core.tenants_file"));
}

absl::StatusOr<RequestParams> GenerateCalls::Check(
    const v1::GenerateRequest& request, const Caller& caller) const {
  ASSIGN_OR_RETURN(
      RequestParams params,
      ParseGenerateRequest(request, options_.model, caller.deadline));
  if (!caller.is_operator) {
    RETURN_IF_ERROR(
        options_.priority_limits.Check(params.priority, caller.peer));
  }
  ASSIGN_OR_RETURN(params.tenant, TenantOf(caller));
  params.traceparent = caller.traceparent;
  const std::optional<VerifierInfo> verifier = options_.verifier_info();
  if (!verifier) return params;  // not connected yet: the coordinator refuses
  RETURN_IF_ERROR(
      CheckPromptSize(request, options_.model, verifier->max_context));
  return params;
}

absl::Status GenerateCalls::Start(const Caller& caller,
                                  absl::StatusOr<v1::GenerateRequest> request,
                                  const OpenStream& open) {
  absl::StatusOr<RequestParams> params =
      request.ok() ? Check(*request, caller) : request.status();
  if (!params.ok()) {
    options_.coordinator->CountUnstarted(params.status());
    return params.status();
  }
  const std::string tenant =
      options_.coordinator->tenants().NameOf(params->tenant);
  ASSIGN_OR_RETURN(
      const WaitingRequests::Entry waiting,
      waiting_.Add(params->request_id, tenant, [&](int64_t num_waiting) {
        return options_.coordinator->CheckOpen(tenant, num_waiting);
      }));
  AnswerStream* stream = &open(*params);
  const PromptQueue::Prompt prompt = SizeOf(*request);
  const absl::Status queued =
      queue_.Post(prompt, [this, stream, waiting, request = *std::move(request),
                           params = *std::move(params)]() mutable {
        Encode(request, std::move(params), waiting, *stream);
      });
  if (!queued.ok()) {
    waiting_.Leave(waiting, [] {});
    Fail(*stream, queued);
  }
  return absl::OkStatus();
}

void GenerateCalls::Tokenize(
    v1::GenerateRequest request,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<TokenId>>) &&> done) {
  // Without a verifier the context is not known, and max_prompt_bytes counts.
  constexpr int64_t kAnyContext = int64_t{1} << 24;
  const std::optional<VerifierInfo> verifier = options_.verifier_info();
  absl::Status status;
  if (request.has_model()) {
    status = CheckModelName(request.model(), options_.model);
  }
  if (status.ok()) {
    status = CheckPromptSize(request, options_.model,
                             verifier ? verifier->max_context : kAnyContext);
  }
  if (!status.ok()) return std::move(done)(status);
  const PromptQueue::Prompt prompt = SizeOf(request);
  auto shared = std::make_shared<decltype(done)>(std::move(done));
  const absl::Status queued =
      queue_.Post(prompt, [this, shared, request = std::move(request)] {
        std::move (*shared)(options_.encode_prompt(request, options_.model));
      });
  if (!queued.ok()) std::move (*shared)(queued);
}

void GenerateCalls::Encode(const v1::GenerateRequest& request,
                           RequestParams params, WaitingRequests::Entry waiting,
                           AnswerStream& stream) {
  auto ready = WithPrompt(request, std::move(params), waiting, stream);
  const bool left = waiting_.Leave(waiting, [&] {
    if (ready.ok()) stream.Begin(*options_.coordinator, *std::move(ready));
  });
  if (!left) {
    Fail(stream, Aborted());
  } else if (!ready.ok()) {
    Fail(stream, ready.status());
  }
}

void GenerateCalls::Fail(AnswerStream& stream,
                         const absl::Status& status) const {
  options_.coordinator->CountUnstarted(status);
  stream.Fail(status);
}

absl::StatusOr<GenerationRequest> GenerateCalls::WithPrompt(
    const v1::GenerateRequest& request, RequestParams params,
    WaitingRequests::Entry waiting, const AnswerStream& stream) const {
  if (waiting_.IsAborted(waiting)) return Aborted();
  if (stream.IsCancelled()) {
    return absl::CancelledError("cancelled by the client");
  }
  if (absl::Now() >= params.deadline) {
    return absl::DeadlineExceededError("deadline of the request");
  }
  ASSIGN_OR_RETURN(std::vector<TokenId> prompt,
                   options_.encode_prompt(request, options_.model));
  return GenerationRequest{std::move(params), std::move(prompt),
                           PromptField(request)};
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
