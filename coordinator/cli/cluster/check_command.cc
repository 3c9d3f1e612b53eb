#include <grpcpp/client_context.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/channel.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/flags/connection_flags.h"
#include "coordinator/cli/rpc_status.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace espalier::cli {
namespace {

namespace health = grpc::health::v1;

constexpr char kCheckUsage[] =
    R"(Usage: espalier check [ADDRESS] [FLAGS]

Asks a service of the cluster for its health (grpc.health.v1). Exit code 0 and
"SERVING" if it serves, 1 if not or if nothing answers.)";

struct CheckOptions {
  std::string service;
  absl::Duration timeout = absl::Seconds(5);
  Credentials credentials = {};
};

absl::Status Check(const std::string& address, const CheckOptions& options) {
  ASSIGN_OR_RETURN(const auto channel,
                   OpenChannel(address, options.credentials));
  grpc::ClientContext call;
  call.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  health::HealthCheckRequest request;
  request.set_service(options.service);
  health::HealthCheckResponse response;
  const grpc::Status status =
      health::Health::NewStub(channel)->Check(&call, request, &response);
  if (!status.ok()) {
    // For every code: a service that does not exist is not serving.
    return absl::UnavailableError(
        WithStartHint(FromRpcStatus(status, address)).message());
  }
  if (response.status() != health::HealthCheckResponse::SERVING) {
    return absl::UnavailableError(absl::StrCat(
        health::HealthCheckResponse::ServingStatus_Name(response.status()),
        " at ", address));
  }
  return absl::OkStatus();
}

absl::Status RunCheck(Context& context, Args args) {
  CheckOptions options;
  std::vector<std::string> addresses;
  ConnectionFlags connection;
  FlagSet flags(kCheckUsage);
  flags.AddPositional(&addresses, /*limit=*/1);
  flags.Add({"--service", "NAME",
             "e.g. espalier.v1.Verifier; default: the server as a whole"},
            &options.service);
  flags.Add({"--timeout", "SECONDS", "default 5"}, &options.timeout);
  connection.AddTo(flags);
  ASSIGN_OR_RETURN(const bool parsed, flags.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  ASSIGN_OR_RETURN(options.credentials, connection.Read());
  const std::string& address =
      addresses.empty() ? context.places.address : addresses[0];
  RETURN_IF_ERROR(Check(address, options));
  context.out << "SERVING\n";
  return absl::OkStatus();
}

}  // namespace

Command CheckCommand() {
  return {.name = "check",
          .summary = "ask a service for its health",
          .run = RunCheck};
}

}  // namespace espalier::cli
