#include "common/rpc/status_convert.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/printable.h"
#include "common/speculation/request_errors.h"
#include "common/speculation/stale_base.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace espalier {
namespace {

void AddBadRequest(const std::string& field, const absl::Status& status,
                   google::rpc::Status& details) {
  google::rpc::BadRequest bad_request;
  auto& violation = *bad_request.add_field_violations();
  violation.set_field(field);
  violation.set_description(std::string(status.message()));
  details.add_details()->PackFrom(bad_request);
}

void AddRetryInfo(absl::Duration delay, google::rpc::Status& details) {
  google::rpc::RetryInfo retry;
  const int64_t seconds =
      absl::IDivDuration(delay, absl::Seconds(1), &delay);  // keeps the rest
  retry.mutable_retry_delay()->set_seconds(seconds);
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  details.add_details()->PackFrom(retry);
}

void AddErrorInfo(const absl::Status& status, google::rpc::Status& details) {
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonOf(status));
  info.set_domain(kErrorDomain);
  if (auto field = FieldOf(status))
    (*info.mutable_metadata())["field"] = *field;
  details.add_details()->PackFrom(info);
}

absl::Status WithDetails(absl::Status status, const std::string& bytes) {
  google::rpc::Status details;
  if (!details.ParseFromString(bytes)) return status;
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::BadRequest bad_request;
    google::rpc::RetryInfo retry;
    google::rpc::ErrorInfo info;
    if (any.UnpackTo(&bad_request) && bad_request.field_violations_size() > 0) {
      const std::string& field = bad_request.field_violations(0).field();
      absl::string_view what = status.message();
      if (absl::ConsumePrefix(&what, field)) absl::ConsumePrefix(&what, ": ");
      status = FieldError(field, what);
    } else if (any.UnpackTo(&retry)) {
      status =
          WithRetryAfter(std::move(status),
                         absl::Seconds(retry.retry_delay().seconds()) +
                             absl::Nanoseconds(retry.retry_delay().nanos()));
    } else if (any.UnpackTo(&info) && info.reason() != ReasonOf(status)) {
      status = WithReason(std::move(status), PeerText(info.reason()));
    }
  }
  return status;
}

// A code from outside. OK and unknown codes become UNKNOWN, so that a failure
// is never hidden.
absl::StatusCode FailureCode(int code) {
  if (code < static_cast<int>(absl::StatusCode::kCancelled) ||
      code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::StatusCode::kUnknown;
  }
  return static_cast<absl::StatusCode>(code);
}

}  // namespace

std::string PeerText(absl::string_view text) {
  constexpr size_t kMaxBytes = 1024;
  return Printable(text, kMaxBytes);
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  if (auto field = FieldOf(status)) AddBadRequest(*field, status, details);
  if (auto delay = RetryAfter(status)) AddRetryInfo(*delay, details);
  AddErrorInfo(status, details);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()),
                      details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return WithDetails(absl::Status(FailureCode(status.error_code()),
                                  PeerText(status.error_message())),
                     status.error_details());
}

v1::Failure ToFailure(const absl::Status& status) {
  ESPALIER_CHECK(!status.ok());
  v1::Failure failure;
  failure.set_code(static_cast<int>(status.code()));
  failure.set_message(std::string(status.message()));
  if (auto field = FieldOf(status)) failure.set_field(*std::move(field));
  if (auto held_length = HeldLength(status)) {
    failure.set_held_length(static_cast<uint64_t>(*held_length));
  }
  return failure;
}

absl::Status FromFailure(const v1::Failure& failure) {
  absl::Status status(FailureCode(failure.code()), PeerText(failure.message()));
  if (absl::IsFailedPrecondition(status) && failure.has_held_length() &&
      failure.held_length() <=
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return WithHeldLength(std::move(status),
                          static_cast<int64_t>(failure.held_length()));
  }
  if (absl::IsInvalidArgument(status) && !failure.field().empty()) {
    return WithField(std::move(status), PeerText(failure.field()));
  }
  return status;
}

}  // namespace espalier
