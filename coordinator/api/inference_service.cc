#include "coordinator/api/inference_service.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/printable.h"
#include "common/base/version.h"
#include "common/rpc/convert.h"
#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "common/speculation/request_errors.h"
#include "coordinator/api/generate_reactor.h"

namespace espalier::coordinator {
namespace {

v1::PeerInfo::Features ToProto(Coordinator::FeaturePath path) {
  switch (path) {
    case Coordinator::FeaturePath::kNone:
      break;
    case Coordinator::FeaturePath::kBytes:
      return v1::PeerInfo::FEATURES_BYTES;
    case Coordinator::FeaturePath::kDeviceRing:
      return v1::PeerInfo::FEATURES_DEVICE_RING;
  }
  return v1::PeerInfo::FEATURES_UNSPECIFIED;
}

// Answers a request that has no parameters yet with what it asks for.
template <typename Request, typename Answer>
grpc::ServerUnaryReactor* Tell(grpc::CallbackServerContext& context,
                               const absl::Status& admitted,
                               const grpc::ByteBuffer& message,
                               const Answer& answer,
                               grpc::ByteBuffer& response) {
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  absl::Status status = admitted;
  if (status.ok()) status = ReadAs<Request>(message).status();
  if (status.ok()) {
    const auto told = answer();
    status = told.status();
    if (told.ok()) response = WriteMessage(*told);
  }
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace

InferenceService::InferenceService(Options options)
    : options_(std::move(options)), start_time_(absl::Now()) {}

absl::StatusOr<Principal> InferenceService::AdmitClient(
    const grpc::ServerContextBase& context) const {
  return options_.gate->Admit(context, {Role::kClient, Role::kOperator});
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message) {
  const absl::StatusOr<Principal> caller = AdmitClient(*context);
  if (!caller.ok()) return GenerateReactor::Refuse(caller.status());
  const Admitted admitted = {
      .tenant = caller->name,
      .is_operator = options_.gate->asks() && caller->role == Role::kOperator,
      .still = [gate = options_.gate, who = *caller] {
        return gate->Holds(who);
      }};
  auto request = ReadAs<v1::GenerateRequest>(*message);
  return StartReactor(*options_.calls, context, admitted, message->Length(),
                      std::move(request));
}

grpc::ServerUnaryReactor* InferenceService::Abort(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (const absl::Status refused = AdmitClient(*context).status();
      !refused.ok()) {
    reactor->Finish(ToGrpcStatus(refused));
    return reactor;
  }
  auto request = ReadAs<v1::AbortRequest>(*message);
  if (!request.ok()) {
    reactor->Finish(ToGrpcStatus(request.status()));
    return reactor;
  }
  *response = WriteMessage(v1::AbortResponse());
  const std::string& id = request->request_id();
  options_.calls->Abort(id, [reactor, id](bool was_live) {
    reactor->Finish(
        was_live ? grpc::Status::OK
                 : ToGrpcStatus(absl::NotFoundError(absl::StrCat(
                       "no request \"", Printable(id, 64), "\" is running"))));
  });
  return reactor;
}

absl::StatusOr<v1::GetModelInfoResponse> InferenceService::ModelInfo() const {
  const std::optional<VerifierInfo> info = options_.verifier_info();
  if (!info) {
    return WithRetryAfter(
        absl::UnavailableError("no verifier has been connected yet"),
        absl::Seconds(1));
  }
  v1::GetModelInfoResponse response;
  response.set_model(options_.calls->model().name);
  response.set_vocab_size(info->model.vocab_size);
  response.set_tokenizer_fingerprint(info->model.tokenizer_fingerprint);
  response.set_max_context(info->max_context);
  response.mutable_eos_token_ids()->Add(info->eos_token_ids.begin(),
                                        info->eos_token_ids.end());
  response.add_rules("auto");
  response.mutable_rules()->Add(info->rules.begin(), info->rules.end());
  response.add_strategies("auto");
  response.mutable_strategies()->Add(options_.strategies.begin(),
                                     options_.strategies.end());
  for (const Coordinator::DrafterStatus& drafter :
       options_.coordinator->Drafters()) {
    response.add_drafters(drafter.name);
  }
  response.set_max_tree_nodes(static_cast<uint32_t>(info->max_tree_nodes));
  return response;
}

absl::StatusOr<v1::GetServerInfoResponse> InferenceService::ServerInfo() const {
  v1::GetServerInfoResponse response;
  response.set_version(Version());
  response.set_protocol_version(kProtocolVersion);
  response.set_start_time(absl::ToUnixSeconds(start_time_));
  options_.describe_peers(response);
  const auto drafters = options_.coordinator->Drafters();
  for (int i = 0; i < response.drafters_size(); ++i) {
    response.mutable_drafters(i)->set_features(ToProto(drafters[i].features));
  }
  return response;
}

absl::StatusOr<v1::GetLoadResponse> InferenceService::Load() const {
  const Coordinator::LoadInfo load = options_.coordinator->Load();
  v1::GetLoadResponse response;
  response.set_running_requests(static_cast<uint32_t>(load.running));
  response.set_queued_requests(static_cast<uint32_t>(load.queued));
  response.set_max_running_requests(static_cast<uint32_t>(load.max_sessions));
  response.set_max_queued_requests(static_cast<uint32_t>(load.max_queued));
  return response;
}

grpc::ServerUnaryReactor* InferenceService::GetModelInfo(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  return Tell<v1::GetModelInfoRequest>(
      *context, AdmitClient(*context).status(), *message,
      [this] { return ModelInfo(); }, *response);
}

// It says where drafters and the verifier are.
grpc::ServerUnaryReactor* InferenceService::GetServerInfo(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  return Tell<v1::GetServerInfoRequest>(
      *context, options_.gate->Admit(*context, {Role::kOperator}).status(),
      *message, [this] { return ServerInfo(); }, *response);
}

grpc::ServerUnaryReactor* InferenceService::GetLoad(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  return Tell<v1::GetLoadRequest>(
      *context, AdmitClient(*context).status(), *message,
      [this] { return Load(); }, *response);
}

}  // namespace espalier::coordinator
