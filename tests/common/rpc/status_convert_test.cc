#include "common/rpc/status_convert.h"

#include <string>

#include "common/speculation/request_errors.h"
#include "common/speculation/stale_base.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(StatusConvert, CodesAndMessagesAreEqual) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    const grpc::Status wire = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_EQ(wire.error_message(), "why");
    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(wire.error_details()));
    google::rpc::ErrorInfo info;
    ASSERT_TRUE(details.details(0).UnpackTo(&info));
    EXPECT_EQ(info.reason(), absl::StatusCodeToString(status.code()));
    EXPECT_EQ(info.domain(), "espalier");
    EXPECT_EQ(FromGrpcStatus(wire), status);
    EXPECT_EQ(FromFailure(ToFailure(status)), status);
  }
}

TEST(StatusConvert, FieldErrorBecomesABadRequest) {
  const absl::Status status = FieldError("speculation.max_nodes", "too many");
  const grpc::Status wire = ToGrpcStatus(status);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(wire.error_details()));
  EXPECT_EQ(details.code(), 3);
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(1).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INVALID_FIELD");
  EXPECT_EQ(info.metadata().at("field"), "speculation.max_nodes");
  EXPECT_EQ(details.details(0).type_url(),
            "type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request));
  EXPECT_EQ(bad_request.field_violations(0).field(), "speculation.max_nodes");

  const absl::Status back = FromGrpcStatus(wire);
  EXPECT_EQ(FieldOf(back), "speculation.max_nodes");
  EXPECT_EQ(back.message(), status.message());
}

TEST(StatusConvert, RetryHintBecomesRetryInfo) {
  const grpc::Status wire = ToGrpcStatus(WithRetryAfter(
      absl::ResourceExhaustedError("full"), absl::Milliseconds(2500)));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(wire.error_details()));
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.details(0).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(RetryAfter(FromGrpcStatus(wire)), absl::Milliseconds(2500));
}

TEST(StatusConvert, TheReasonSurvives) {
  const absl::Status status =
      WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(ToGrpcStatus(status))), "QUEUE_FULL");
}

TEST(StatusConvert, HeldLengthSurvives) {
  const absl::Status status = StaleBaseError(12, 40);
  const absl::Status back = FromFailure(ToFailure(status));
  EXPECT_EQ(HeldLength(back), 12);
  EXPECT_EQ(back, status);
  EXPECT_EQ(HeldLength(FromFailure(
                ToFailure(absl::FailedPreconditionError("another reason")))),
            std::nullopt);
}

TEST(StatusConvert, AFailureIsNeverOk) {
  for (int code : {0, -1, 17, 1'000'000}) {
    v1::Failure failure;
    failure.set_code(code);
    EXPECT_EQ(FromFailure(failure).code(), absl::StatusCode::kUnknown);
  }
  v1::Failure huge;
  huge.set_code(9);
  huge.set_held_length(~uint64_t{0});
  EXPECT_EQ(HeldLength(FromFailure(huge)), std::nullopt);
}

TEST(StatusConvert, GarbageInDetailsIsIgnored) {
  const grpc::Status wire(grpc::StatusCode::INTERNAL, "m", "\xff\xff garbage");
  EXPECT_EQ(FromGrpcStatus(wire), absl::InternalError("m"));
}

}  // namespace
}  // namespace espalier
