#include "coordinator/api/admin_service.h"

#include <optional>
#include <string>

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
    grpc::CallbackServerContext* context, const v1::ListDraftersRequest*,
    v1::ListDraftersResponse* response) {
  for (const Coordinator::DrafterStatus& drafter : coordinator_.Drafters()) {
    Fill(drafter.name, drafter.settings, *response->add_drafters());
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SetDrafter(
    grpc::CallbackServerContext* context, const v1::SetDrafterRequest* request,
    v1::DrafterSettings* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
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
        if (settings.ok()) Fill(name, *settings, *response);
        reactor->Finish(ToGrpcStatus(settings.status()));
      });
  return reactor;
}

}  // namespace espalier::coordinator
