#include "coordinator/api/inference_service.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

TEST(InferenceServiceTest, WithoutAVerifierTheModelIsToBeAskedForLater) {
  InferenceService service({.verifier_info = [] { return std::nullopt; }});
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = v1::Inference::NewStub(server->InProcessChannel({}));
  grpc::ClientContext context;
  v1::GetModelInfoResponse response;
  const grpc::Status status = stub->GetModelInfo(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_details().find("RetryInfo"), std::string::npos);
}

}  // namespace
}  // namespace espalier::coordinator
