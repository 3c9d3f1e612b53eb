#include "coordinator/cli/rpc_status.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace espalier::cli {
namespace {

// " [field: description]" for each violation that the message leaves out.
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

}  // namespace

absl::Status FromRpcStatus(const grpc::Status& status,
                           const std::string& address) {
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
