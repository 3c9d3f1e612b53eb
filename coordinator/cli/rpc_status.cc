#include "coordinator/cli/rpc_status.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace espalier::cli {
namespace {

constexpr char kNobodyAnswers[] = "nobody answers at ";

// " [field: description]" for each violation that the message does not mention.
std::string Violations(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return "";
  std::string text;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::BadRequest bad_request;
    if (!detail.Is<google::rpc::BadRequest>() ||
        !detail.UnpackTo(&bad_request)) {
      continue;
    }
    for (const auto& violation : bad_request.field_violations()) {
      if (absl::StrContains(status.error_message(), violation.field())) {
        continue;
      }
      absl::StrAppend(&text, " [", violation.field(), ": ",
                      violation.description(), "]");
    }
  }
  return text;
}

// Whether this is gRPC's local error for a failed connection, other than one
// that TLS has ended.
bool IsNobodyThere(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         !absl::StrContains(status.error_message(), "handshake failed") &&
         !absl::StrContains(status.error_message(), "Hostname Verification") &&
         absl::StrContains(status.error_message(),
                           "failed to connect to all addresses");
}

// "No such file or directory" of "...; last error: UNKNOWN: PATH: No such ...".
absl::string_view LastPart(absl::string_view message) {
  const size_t colon = message.rfind(": ");
  return colon == message.npos ? message : message.substr(colon + 2);
}

}  // namespace

absl::Status NobodyThere(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("UNAVAILABLE: ", kNobodyAnswers, address,
                   why.empty() ? "" : absl::StrCat(" (", why, ")")));
}

absl::Status WithStartHint(const absl::Status& status) {
  if (!absl::StrContains(status.message(), kNobodyAnswers)) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(),
                   "; start a cluster with deploy/quickstart.sh or "
                   "`espalier serve`, or name one with --address"));
}

absl::Status FromRpcStatus(const grpc::Status& status,
                           const std::string& address) {
  if (IsNobodyThere(status)) {
    return NobodyThere(address, LastPart(status.error_message()));
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  std::string message =
      absl::StrCat(absl::StatusCodeToString(code), ": ", status.error_message(),
                   Violations(status));
  if (code == absl::StatusCode::kUnavailable) {
    absl::StrAppend(&message, " (at ", address, ")");
  }
  return absl::Status(code, message);
}

}  // namespace espalier::cli
