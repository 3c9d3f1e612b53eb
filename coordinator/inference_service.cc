#include "coordinator/inference_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/version.h"
#include "common/rpc/convert.h"
#include "common/rpc/status_convert.h"
#include "coordinator/generate_reactor.h"

namespace espalier::coordinator {
namespace {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max()
             ? absl::InfiniteFuture()
             : absl::FromChrono(deadline);
}

}  // namespace

InferenceService::InferenceService(Options options)
    : options_(std::move(options)), start_time_(absl::Now()) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  absl::StatusOr<GenerationRequest> parsed =
      ParseGenerateRequest(*request, options_.model, DeadlineOf(*context));
  if (!parsed.ok()) {
    return GenerateReactor::Refuse(ToGrpcStatus(parsed.status()));
  }
  auto* reactor =
      new GenerateReactor({.request_id = parsed->request_id,
                           .seed = parsed->sampling.seed,
                           .tokenizer = options_.model.tokenizer,
                           .stop_token_ids = parsed->stop_token_ids});
  reactor->Begin(*options_.coordinator, *std::move(parsed));
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::Abort(
    grpc::CallbackServerContext* context, const v1::AbortRequest* request,
    v1::AbortResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  options_.coordinator->Abort(
      request->request_id(),
      [reactor, id = request->request_id()](bool was_live) {
        reactor->Finish(was_live
                            ? grpc::Status::OK
                            : ToGrpcStatus(absl::NotFoundError(absl::StrCat(
                                  "no request \"", id, "\" is running"))));
      });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::GetModelInfo(
    grpc::CallbackServerContext* context, const v1::GetModelInfoRequest*,
    v1::GetModelInfoResponse* response) {
  const std::optional<VerifierInfo> info = options_.verifier_info();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!info) {
    reactor->Finish(ToGrpcStatus(
        absl::UnavailableError("no verifier has been connected yet")));
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
