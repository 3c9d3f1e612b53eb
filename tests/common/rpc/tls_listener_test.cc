#include <memory>
#include <string>

#include "common/rpc/channel_tls.h"
#include "common/rpc/handshake.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/server_runner.h"
#include "drafter/drafter_service.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"
#include "tests/testing/test_certificates.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
namespace health = ::grpc::health::v1;
using testing::IssuedCertificate;
using testing::ReplaceFile;
using testing::TestAuthority;

// A drafter "math" that wants certificates of `authority_`.
class TlsListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ReplaceFile(File("ca"), authority_.pem());
    Install(authority_.Issue({"math"}));
    v1::ServerConfig config;
    config.add_listen("127.0.0.1:0");
    config.mutable_tls()->set_certificate_file(File("crt"));
    config.mutable_tls()->set_key_file(File("key"));
    config.mutable_tls()->set_client_ca_file(File("ca"));
    auto gate = AccessGate::Open(AccessGate::ForPeers(config, ""));
    ASSERT_TRUE(gate.ok()) << gate.status();
    service_ = std::make_unique<drafter::DrafterService>(
        engine_, TestDrafterInfo(), *gate);
    auto runner =
        ServerRunner::Start({.config = config,
                             .services = {{"espalier.v1.Drafter", &*service_}},
                             .registry = registry_,
                             .gate = *gate});
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }

  static std::string File(const std::string& kind) {
    return ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() +
           "." + kind;
  }

  static void Install(const IssuedCertificate& issued) {
    ReplaceFile(File("crt"), issued.certificate);
    ReplaceFile(File("key"), issued.key);
  }

  // A client that trusts `authority` and shows `own`, in a channel of its own.
  std::shared_ptr<grpc::Channel> Dial(const TestAuthority& authority,
                                      const IssuedCertificate& own,
                                      const std::string& server = "math") {
    ReplaceFile(File("client.ca"), authority.pem());
    ReplaceFile(File("client.crt"), own.certificate);
    ReplaceFile(File("client.key"), own.key);
    auto files = CertificateFiles::Open({.certificate = File("client.crt"),
                                         .key = File("client.key"),
                                         .ca = File("client.ca")});
    EXPECT_TRUE(files.ok()) << files.status();
    return NewPeerChannel(runner_->addresses()[0], absl::Seconds(20),
                          {.files = *files, .server_name = server});
  }

  // The status of a call that everybody may make, once connected.
  static grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(Generous()));
    health::HealthCheckResponse response;
    return health::Health::NewStub(channel)->Check(&context, {}, &response);
  }

  // The status with which a stream to the drafter ends, or OK after its hello.
  static grpc::Status Greet(const std::shared_ptr<grpc::Channel>& channel) {
    const auto stub = v1::Drafter::NewStub(channel);
    grpc::ClientContext context;
    const auto stream = stub->Draft(&context);
    v1::DraftRequest hello;
    hello.set_request_id(1);
    *hello.mutable_hello() =
        MakeCoordinatorHello(TestDrafterInfo().model, /*epoch=*/7);
    v1::DraftResponse response;
    if (stream->Write(hello) && stream->Read(&response)) {
      context.TryCancel();
      stream->Finish();
      return grpc::Status::OK;
    }
    return stream->Finish();
  }

  const TestAuthority authority_{"ours"};
  FakeDraftEngine engine_;
  std::unique_ptr<drafter::DrafterService> service_;
  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
  std::unique_ptr<ServerRunner> runner_;
};

TEST_F(TlsListenerTest, ACoordinatorIsServed) {
  EXPECT_TRUE(Greet(Dial(authority_, authority_.Issue({"coordinator"}))).ok());
}

TEST_F(TlsListenerTest, AnotherServicesCertificateIsNoCoordinators) {
  for (const IssuedCertificate& other :
       {authority_.Issue({"code"}), authority_.Issue({})}) {
    const grpc::Status status = Greet(Dial(authority_, other));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr("\"coordinator\""));
  }
}

TEST_F(TlsListenerTest, AServerWithAnotherNameIsNotSpokenTo) {
  const grpc::Status status =
      Ask(Dial(authority_, authority_.Issue({"coordinator"}), "code"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsListenerTest, StrangersAndExpiredCertificatesGetNoConnection) {
  const TestAuthority other("another");
  EXPECT_FALSE(Ask(Dial(other, authority_.Issue({"coordinator"}))).ok());
  EXPECT_FALSE(Ask(Dial(authority_, other.Issue({"coordinator"}))).ok());
  EXPECT_FALSE(Ask(NewPeerChannel(runner_->addresses()[0])).ok());
  // One that this side would not load.
  const IssuedCertificate expired =
      authority_.Issue({"coordinator"}, {.ends = -absl::Minutes(1)});
  grpc::SslCredentialsOptions options = {
      .pem_root_certs = authority_.pem(),
      .pem_private_key = expired.key,
      .pem_cert_chain = expired.certificate};
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("math");
  EXPECT_FALSE(
      Ask(grpc::CreateCustomChannel(runner_->addresses()[0],
                                    grpc::SslCredentials(options), arguments))
          .ok());
}

TEST_F(TlsListenerTest, ARotationOfEverythingKeepsOldConnections) {
  const auto old = Dial(authority_, authority_.Issue({"coordinator"}));
  ASSERT_TRUE(Ask(old).ok());
  const TestAuthority next("next");
  ReplaceFile(File("ca"), next.pem());
  Install(next.Issue({"math"}));
  const IssuedCertificate own = next.Issue({"coordinator"});
  const absl::Time deadline = Generous();
  while (!Ask(Dial(next, own)).ok() && absl::Now() < deadline) {
  }
  EXPECT_TRUE(Greet(Dial(next, own)).ok());
  EXPECT_FALSE(Ask(Dial(authority_, authority_.Issue({"coordinator"}))).ok());
  EXPECT_TRUE(Ask(old).ok());
}

}  // namespace
}  // namespace espalier
