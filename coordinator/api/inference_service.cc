#include "coordinator/api/inference_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/convert.h"
#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "common/spec/request_errors.h"
#include "coordinator/api/generate_reactor.h"

namespace espalier::coordinator {
namespace {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max()
             ? absl::InfiniteFuture()
             : absl::FromChrono(deadline);
}

absl::Status Aborted() { return absl::CancelledError("aborted"); }

}  // namespace

InferenceService::InferenceService(Options options)
    : options_(std::move(options)),
      start_time_(absl::Now()),
      queue_({.max_bytes = 4 * options_.model.max_prompt_bytes}) {}

absl::StatusOr<GenerationRequest> InferenceService::Check(
    const v1::GenerateRequest& request, absl::Time deadline) const {
  ASSIGN_OR_RETURN(GenerationRequest parsed,
                   ParseGenerateRequest(request, options_.model, deadline));
  const std::optional<VerifierInfo> verifier = options_.verifier_info();
  if (!verifier) return parsed;  // not connected yet: the coordinator refuses
  RETURN_IF_ERROR(CheckPrompt(request, options_.model, verifier->max_context));
  return parsed;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message) {
  auto request = ReadAs<v1::GenerateRequest>(*message);
  if (!request.ok()) return Refuse(request.status());
  auto parsed = Check(*request, DeadlineOf(*context));
  if (!parsed.ok()) return Refuse(parsed.status());
  auto text = ParseStopText(*request, *parsed, options_.model);
  if (!text.ok()) return Refuse(text.status());
  const absl::Status open = options_.coordinator->CheckOpen();
  if (!open.ok()) return GenerateReactor::Refuse(open);
  if (!text->stop_strings.empty()) {
    parsed->find_stop_string = [text = StopText(*text)](TokenId token) mutable {
      text.Push(token);
      return text.found();
    };
  }
  auto* reactor = new GenerateReactor({.request_id = parsed->request_id,
                                       .seed = parsed->sampling.seed,
                                       .text = *std::move(text),
                                       .context = context,
                                       .request_bytes = message->Length(),
                                       .unread = &unread_});
  const int64_t bytes = PromptBytes(*request);
  const WaitingRequests::Entry waiting = waiting_.Add(parsed->request_id);
  const absl::Status queued =
      queue_.Post(bytes, [this, reactor, waiting, request = *std::move(request),
                          parsed = *std::move(parsed)]() mutable {
        Encode(request, std::move(parsed), waiting, *reactor);
      });
  if (!queued.ok()) {
    waiting_.Leave(waiting, [] {});
    Fail(*reactor, queued);
  }
  return reactor;
}

void InferenceService::Encode(const v1::GenerateRequest& request,
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

GenerateReactor* InferenceService::Refuse(const absl::Status& status) const {
  options_.coordinator->CountUnstarted(status);
  return GenerateReactor::Refuse(status);
}

void InferenceService::Fail(GenerateReactor& reactor,
                            const absl::Status& status) const {
  options_.coordinator->CountUnstarted(status);
  reactor.Fail(status);
}

absl::StatusOr<GenerationRequest> InferenceService::WithPrompt(
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

grpc::ServerUnaryReactor* InferenceService::Abort(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto request = ReadAs<v1::AbortRequest>(*message);
  if (!request.ok()) {
    reactor->Finish(ToGrpcStatus(request.status()));
    return reactor;
  }
  *response = WriteMessage(v1::AbortResponse());
  const std::string& id = request->request_id();
  const bool waited = waiting_.Abort(id);
  options_.coordinator->Abort(id, [reactor, id, waited](bool was_live) {
    reactor->Finish(
        waited || was_live
            ? grpc::Status::OK
            : ToGrpcStatus(absl::NotFoundError(absl::StrCat(
                  "no request \"", Printable(id, 64), "\" is running"))));
  });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::GetModelInfo(
    grpc::CallbackServerContext* context, const v1::GetModelInfoRequest*,
    v1::GetModelInfoResponse* response) {
  const std::optional<VerifierInfo> info = options_.verifier_info();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!info) {
    reactor->Finish(ToGrpcStatus(WithRetryAfter(
        absl::UnavailableError("no verifier has been connected yet"),
        absl::Seconds(1))));
    return reactor;
  }
  response->set_model(options_.model.name);
  response->set_vocab_size(info->model.vocab_size);
  response->set_tokenizer_fingerprint(info->model.tokenizer_fingerprint);
  response->set_max_context(info->max_context);
  response->mutable_eos_token_ids()->Add(info->eos_token_ids.begin(),
                                         info->eos_token_ids.end());
  response->add_rules("auto");
  response->mutable_rules()->Add(info->rules.begin(), info->rules.end());
  response->add_strategies("auto");
  response->mutable_strategies()->Add(options_.strategies.begin(),
                                      options_.strategies.end());
  for (const Coordinator::DrafterStatus& drafter :
       options_.coordinator->Drafters()) {
    response->add_drafters(drafter.name);
  }
  response->set_max_tree_nodes(static_cast<uint32_t>(info->max_tree_nodes));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
    v1::GetServerInfoResponse* response) {
  response->set_version(Version());
  response->set_protocol_version(kProtocolVersion);
  response->set_start_time(absl::ToUnixSeconds(start_time_));
  options_.describe_peers(*response);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::GetLoad(
    grpc::CallbackServerContext* context, const v1::GetLoadRequest*,
    v1::GetLoadResponse* response) {
  const Coordinator::LoadInfo load = options_.coordinator->Load();
  response->set_running_requests(static_cast<uint32_t>(load.running));
  response->set_queued_requests(static_cast<uint32_t>(load.queued));
  response->set_max_running_requests(static_cast<uint32_t>(load.max_sessions));
  response->set_max_queued_requests(static_cast<uint32_t>(load.max_queued));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace espalier::coordinator
