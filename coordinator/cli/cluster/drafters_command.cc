#include <grpcpp/client_context.h>

#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/channel.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/flags/connection_flags.h"
#include "coordinator/cli/rpc_status.h"
#include "espalier/v1/admin.grpc.pb.h"

namespace espalier::cli {
namespace {

constexpr char kDraftersUsage[] =
    R"(Usage: espalier drafters [--set NAME [--role ROLE] [--weight W]] [FLAGS]

Prints the drafters' settings, or changes those of one drafter from the next
round on.

active: the drafter is used. shadow: it is asked and measured against the text,
never waited for, never verified (metric espalier_drafter_accepted_length).
off: it is not asked.)";

struct DraftersFlags {
  std::string address;
  absl::Duration timeout = absl::Seconds(5);
  std::optional<std::string> name = {};
  std::optional<std::string> role = {};
  std::optional<float> weight = {};
};

std::string RoleName(v1::DrafterRole role) {
  switch (role) {
    case v1::DRAFTER_ROLE_ACTIVE:
      return "active";
    case v1::DRAFTER_ROLE_SHADOW:
      return "shadow";
    case v1::DRAFTER_ROLE_OFF:
      return "off";
    default:
      return "unknown";
  }
}

absl::StatusOr<v1::SetDrafterRequest> ChangeOf(const DraftersFlags& flags) {
  v1::SetDrafterRequest request;
  request.set_name(*flags.name);
  if (flags.weight) request.set_weight(*flags.weight);
  if (!flags.role) return request;
  for (v1::DrafterRole role : {v1::DRAFTER_ROLE_ACTIVE, v1::DRAFTER_ROLE_SHADOW,
                               v1::DRAFTER_ROLE_OFF}) {
    if (*flags.role == RoleName(role)) request.set_role(role);
  }
  if (request.has_role()) return request;
  return absl::InvalidArgumentError(absl::StrCat(
      "--role: \"", *flags.role, "\" is not active, shadow or off"));
}

absl::Status RunDrafters(Context& context, Args args) {
  DraftersFlags flags = {.address = context.places.admin_address};
  ConnectionFlags connection;
  FlagSet flag_set(kDraftersUsage);
  flag_set.Add({"--set", "NAME", "the drafter to change"}, &flags.name);
  flag_set.Add({"--role", "ROLE", "active, shadow or off"}, &flags.role);
  flag_set.Add({"--weight", "W",
                "factor on its tokens when nodes are chosen,\n"
                "0.01 .. 100; 1: no correction"},
               &flags.weight);
  flag_set.Add({"--address", "ADDRESS",
                "HOST:PORT or unix:PATH: an admin_listen of the\n"
                "coordinator; default the quick start's: " +
                    flags.address},
               &flags.address);
  flag_set.Add({"--timeout", "SECONDS", "default 5"}, &flags.timeout);
  connection.AddTo(flag_set);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();
  if (!flags.name && (flags.role || flags.weight)) {
    return absl::InvalidArgumentError("--set: says which drafter is changed");
  }

  ASSIGN_OR_RETURN(const Credentials credentials, connection.Read());
  ASSIGN_OR_RETURN(const auto channel, OpenChannel(flags.address, credentials));
  const auto admin = v1::Admin::NewStub(channel);
  grpc::ClientContext call;
  call.set_deadline(absl::ToChronoTime(absl::Now() + flags.timeout));
  v1::ListDraftersResponse listed;
  grpc::Status status;
  if (flags.name) {
    ASSIGN_OR_RETURN(const v1::SetDrafterRequest request, ChangeOf(flags));
    status = admin->SetDrafter(&call, request, listed.add_drafters());
  } else {
    status = admin->ListDrafters(&call, {}, &listed);
  }
  if (!status.ok()) {
    return WithStartHint(FromRpcStatus(status, flags.address));
  }
  for (const v1::DrafterSettings& drafter : listed.drafters()) {
    context.out << absl::StreamFormat("%-12s%-8sweight %g\n", drafter.name(),
                                      RoleName(drafter.role()),
                                      drafter.weight());
  }
  return absl::OkStatus();
}

}  // namespace

Command DraftersCommand() {
  return {.name = "drafters",
          .summary = "list the drafters, change their roles",
          .run = RunDrafters};
}

}  // namespace espalier::cli
