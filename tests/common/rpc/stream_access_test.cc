// Who may use a stream, and for how long.
#include <fstream>
#include <string>

#include "common/base/reload.h"
#include "common/rpc/access_gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/server_streams_fixture.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

class StreamAccessTest : public ServerStreamsTest {};

TEST_F(StreamAccessTest, WhoDoesNotShowTheTokenIsNotServed) {
  const std::string file = testing::TempDir() + "/token";
  std::ofstream(file) << "0123456789abcdef\n";
  const auto gate = AccessGate::Open({.token_file = file});
  ASSERT_TRUE(gate.ok()) << gate.status();
  const auto service =
      NewDrafterService(draft_engine_, TestDrafterInfo(), *gate);
  const auto runner = Serve(*service);
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ(EndAfter(Hello()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  for (const char* wrong : {"0123456789abcdeF", "0123456789abcdef0"}) {
    Client client = Open(wrong);
    v1::DraftResponse response;
    EXPECT_FALSE(client.stream->Read(&response));
    EXPECT_EQ(client.stream->Finish().error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
    client.stream.reset();
  }
  Client client = Open("0123456789abcdef");
  EXPECT_TRUE(client.Ask(Hello()).has_hello());
}

TEST_F(StreamAccessTest, ATokenThatIsReplacedEndsItsStream) {
  const std::string file = testing::TempDir() + "/replaced_token";
  std::ofstream(file) << "0123456789abcdef\n";
  const auto gate = AccessGate::Open({.token_file = file});
  ASSERT_TRUE(gate.ok()) << gate.status();
  Reload reload;
  AccessGate::Follow(*gate, {.token_file = "drafters.0.token_file"}, reload);
  const auto service =
      NewDrafterService(draft_engine_, TestDrafterInfo(), *gate);
  const auto runner = Serve(*service);
  ASSERT_TRUE(runner.ok()) << runner.status();
  Client client = Open("0123456789abcdef");
  EXPECT_TRUE(client.Ask(Hello()).has_hello());
  std::ofstream(file) << "short\n";
  const absl::Status refused = reload.Run();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("drafters.0.token_file: " + file + ": a token of 5"));
  EXPECT_FALSE(client.Ask(Propose(2, 1)).has_failure());
  std::ofstream(file) << "0123456789abcdef\n";  // the same: no stream ends
  EXPECT_TRUE(reload.Run().ok());
  EXPECT_FALSE(client.Ask(Propose(3, 1)).has_failure());
  std::ofstream(file) << "fedcba9876543210\n";
  EXPECT_TRUE(reload.Run().ok());
  client.stream->Write(Propose(4, 1));
  v1::DraftResponse response;
  EXPECT_FALSE(client.stream->Read(&response));
  EXPECT_EQ(client.stream->Finish().error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  client.stream.reset();
  Client next = Open("fedcba9876543210");
  EXPECT_TRUE(next.Ask(Hello()).has_hello());
}

TEST_F(StreamAccessTest, ACredentialThatIsRevokedEndsItsStream) {
  const std::string file = testing::TempDir() + "/revoked_roles";
  // The hash is the token's, by sha256sum.
  std::ofstream(file)
      << "service one sha256:"
         "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f\n";
  const auto gate = AccessGate::Open({.roles_file = file});
  ASSERT_TRUE(gate.ok()) << gate.status();
  const auto service =
      NewDrafterService(draft_engine_, TestDrafterInfo(), *gate);
  const auto runner = Serve(*service);
  ASSERT_TRUE(runner.ok()) << runner.status();
  Client client = Open("0123456789abcdef");
  EXPECT_TRUE(client.Ask(Hello()).has_hello());
  EXPECT_FALSE(client.Ask(Propose(2, 1)).has_failure());
  std::ofstream(file) << "# nobody\n";
  client.stream->Write(Propose(3, 1));
  v1::DraftResponse response;
  EXPECT_FALSE(client.stream->Read(&response));
  const grpc::Status status = client.stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("revoked"));
  client.stream.reset();
}

}  // namespace
}  // namespace espalier
