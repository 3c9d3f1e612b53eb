#include "coordinator/api/admin_service.h"

#include <optional>
#include <string>

#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "common/spec/request_errors.h"

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

void Fill(const std::string& name, const DrafterSettings& settings,
          v1::DrafterSettings& out) {
  out.set_name(name);
  out.set_role(ToProto(settings.role));
  out.set_weight(settings.weight);
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::ListDrafters(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto request = ReadAs<v1::ListDraftersRequest>(*message);
  if (!request.ok()) {
    reactor->Finish(ToGrpcStatus(request.status()));
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
  if (!request.ok()) {
    reactor->Finish(ToGrpcStatus(request.status()));
    return reactor;
  }
  Coordinator::SettingsChange change = {.drafter = request->name()};
  if (request->has_role()) {
    const absl::StatusOr<DrafterRole> role = FromProto(request->role());
    if (!role.ok()) {
      reactor->Finish(ToGrpcStatus(role.status()));
      return reactor;
    }
    change.role = *role;
  }
  if (request->has_weight()) change.weight = request->weight();
  coordinator_.SetSettings(
      change, [reactor, response, name = request->name()](
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
