#include "coordinator/api/admin_service.h"

#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "common/speculation/request_errors.h"
#include "google/protobuf/util/json_util.h"

namespace espalier::coordinator {
namespace {

v1::DrafterRole ToProto(DrafterRole role) {
  switch (role) {
    case DrafterRole::kOff:
      return v1::DRAFTER_ROLE_OFF;
    case DrafterRole::kShadow:
      return v1::DRAFTER_ROLE_SHADOW;
    case DrafterRole::kActive:
      return v1::DRAFTER_ROLE_ACTIVE;
  }
  return v1::DRAFTER_ROLE_UNSPECIFIED;
}

absl::StatusOr<DrafterRole> FromProto(v1::DrafterRole role) {
  switch (role) {
    case v1::DRAFTER_ROLE_OFF:
      return DrafterRole::kOff;
    case v1::DRAFTER_ROLE_SHADOW:
      return DrafterRole::kShadow;
    case v1::DRAFTER_ROLE_ACTIVE:
      return DrafterRole::kActive;
    default:
      return FieldError("role", "not ACTIVE, SHADOW or OFF");
  }
}

std::string JsonOf(const google::protobuf::Message& message) {
  std::string json;
  return google::protobuf::util::MessageToJsonString(message, &json).ok() ? json
                                                                          : "";
}

absl::StatusOr<Coordinator::SettingsChange> ChangeOf(
    const v1::SetDrafterRequest& request) {
  Coordinator::SettingsChange change = {.drafter = request.name()};
  if (request.has_role()) {
    ASSIGN_OR_RETURN(change.role, FromProto(request.role()));
  }
  if (request.has_weight()) change.weight = request.weight();
  return change;
}

void Fill(const std::string& name, const DrafterSettings& settings,
          v1::DrafterSettings& out) {
  out.set_name(name);
  out.set_role(ToProto(settings.role));
  out.set_weight(settings.weight);
}

}  // namespace

AdminService::AdminService(Coordinator* coordinator,
                           std::shared_ptr<const AccessGate> gate,
                           std::unique_ptr<AuditLog> audit)
    : coordinator_(*coordinator),
      gate_(std::move(gate)),
      audit_(std::move(audit)) {}

absl::Status AdminService::Audit(const grpc::ServerContextBase& context,
                                 AuditEntry entry) {
  const absl::StatusOr<Principal> caller =
      gate_->Admit(context, {Role::kOperator});
  if (!caller.ok()) entry.decision = caller.status();
  if (caller.ok()) entry.caller = caller->name;
  entry.peer = context.peer();
  const absl::Status written = audit_->Write(entry);
  return entry.decision.ok() ? written : entry.decision;
}

std::string AdminService::SettingsOf(const std::string& drafter) const {
  for (const Coordinator::DrafterStatus& known : coordinator_.Drafters()) {
    if (known.name != drafter) continue;
    v1::DrafterSettings settings;
    Fill(known.name, known.settings, settings);
    return JsonOf(settings);
  }
  return "";
}

grpc::ServerUnaryReactor* AdminService::ListDrafters(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto request = ReadAs<v1::ListDraftersRequest>(*message);
  const absl::Status admitted =
      Audit(*context, {.method = "ListDrafters", .decision = request.status()});
  if (!admitted.ok()) {
    reactor->Finish(ToGrpcStatus(admitted));
    return reactor;
  }
  v1::ListDraftersResponse all;
  for (const Coordinator::DrafterStatus& drafter : coordinator_.Drafters()) {
    Fill(drafter.name, drafter.settings, *all.add_drafters());
  }
  *response = WriteMessage(all);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SetDrafter(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto request = ReadAs<v1::SetDrafterRequest>(*message);
  const absl::StatusOr<Coordinator::SettingsChange> change =
      request.ok() ? ChangeOf(*request) : request.status();
  AuditEntry entry = {.method = "SetDrafter", .decision = change.status()};
  if (request.ok()) {
    entry.before = SettingsOf(request->name());
    entry.wanted = JsonOf(*request);
  }
  const absl::Status admitted = Audit(*context, std::move(entry));
  if (!admitted.ok()) {
    reactor->Finish(ToGrpcStatus(admitted));
    return reactor;
  }
  coordinator_.SetSettings(
      *change, [reactor, response, name = request->name()](
                   const absl::StatusOr<DrafterSettings>& settings) {
        if (settings.ok()) {
          v1::DrafterSettings all;
          Fill(name, *settings, all);
          *response = WriteMessage(all);
        }
        reactor->Finish(ToGrpcStatus(settings.status()));
      });
  return reactor;
}

}  // namespace espalier::coordinator
