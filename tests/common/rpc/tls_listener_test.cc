#include <memory>
#include <string>

#include "common/rpc/channel_tls.h"
#include "common/rpc/handshake.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/server_runner.h"
#include "common/rpc/tls_tap.h"
#include "espalier/v1/drafter.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/common/http/tls_client.h"
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
    service_ = NewDrafterService(engine_, TestDrafterInfo(), *gate);
    auto runner = ServerRunner::Start(
        {.config = config,
         .services = {{"espalier.v1.Drafter", service_->calls()}},
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
    return NewPeerChannel(runner_->addresses()[0],
                          {.tls = {.files = *files, .server_name = server}});
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

  // Connections that were closed for a reason.
  double closed(const std::string& reason) const {
    for (const auto& family : registry_->Collect()) {
      if (family.name != "espalier_connections_closed_total") continue;
      for (const auto& metric : family.metric) {
        if (metric.label[0].value == reason) return metric.counter.value;
      }
    }
    return 0;
  }

  const TestAuthority authority_{"ours"};
  FakeDraftEngine engine_;
  std::unique_ptr<PeerService> service_;
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
  grpc::SslCredentialsOptions options = {.pem_root_certs = authority_.pem(),
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

TEST_F(TlsListenerTest, AFloodIsSeenThroughTls) {
  const IssuedCertificate own = authority_.Issue({"coordinator"});
  ReplaceFile(File("client.crt"), own.certificate);
  ReplaceFile(File("client.key"), own.key);
  testing::TlsClient client(
      static_cast<uint16_t>(
          ListenAddress::Parse(runner_->addresses()[0])->port),
      File("ca"), File("client.crt"), File("client.key"));
  const unsigned char kProtocol[] = {2, 'h', '2'};
  SSL_set_alpn_protos(client.ssl(), kProtocol, sizeof(kProtocol));
  ASSERT_TRUE(client.Shake());
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes += std::string("\0\0\0\4\0\0\0\0\0", 9);  // SETTINGS
  for (int i = 0; i < 2000; ++i) {
    bytes += std::string("\0\0\x08\6\0\0\0\0\0", 9);  // PING
    bytes += "12345678";
  }
  client.Write(bytes);
  client.ReadAll();  // until the connection is closed
  EXPECT_EQ(closed("control_frames"), 1);
  EXPECT_TRUE(Greet(Dial(authority_, own)).ok());
}

TEST_F(TlsListenerTest, OldProtocolsAndNewHandshakesAreRefused) {
  const IssuedCertificate own = authority_.Issue({"coordinator"});
  ReplaceFile(File("client.crt"), own.certificate);
  ReplaceFile(File("client.key"), own.key);
  const auto port = static_cast<uint16_t>(
      ListenAddress::Parse(runner_->addresses()[0])->port);
  testing::TlsClient old(port, File("ca"), File("client.crt"),
                         File("client.key"));
  SSL_set_security_level(old.ssl(), 0);
  SSL_set_min_proto_version(old.ssl(), TLS1_VERSION);
  SSL_set_max_proto_version(old.ssl(), TLS1_1_VERSION);
  EXPECT_FALSE(old.Shake());
  testing::TlsClient again(port, File("ca"), File("client.crt"),
                           File("client.key"));
  SSL_set_max_proto_version(again.ssl(), TLS1_2_VERSION);
  const unsigned char kProtocol[] = {2, 'h', '2'};
  SSL_set_alpn_protos(again.ssl(), kProtocol, sizeof(kProtocol));
  ASSERT_TRUE(again.Shake());
  SSL_renegotiate(again.ssl());
  EXPECT_NE(SSL_do_handshake(again.ssl()), 1);
}

TEST_F(TlsListenerTest, WhatIsNoTlsIsClosedAtOnce) {
  EXPECT_FALSE(Ask(NewPeerChannel(runner_->addresses()[0])).ok());
  EXPECT_GE(closed("not_tls"), 1);
}

}  // namespace

TEST(ClientRandomTest, IsFoundInAnyPieces) {
  const std::string random(32, 'r');
  const std::string hello =
      std::string("\x16\3\1\2\0\1\0\1\xfc\3\3", 11) + random + "rest";
  for (const size_t piece : {size_t{1}, size_t{7}, hello.size()}) {
    ClientRandom client;
    auto state = ClientRandom::State::kUnfinished;
    for (size_t i = 0; i < hello.size(); i += piece) {
      EXPECT_NE(state, ClientRandom::State::kNotTls);
      state = client.Feed(hello.substr(i, piece));
    }
    EXPECT_EQ(state, ClientRandom::State::kFound);
    EXPECT_EQ(client.value(), random);
  }
}

TEST(ClientRandomTest, OtherBeginningsAreNoHandshake) {
  for (const std::string& bytes :
       {std::string("PRI * HTTP/2.0"), std::string("\x16\3\1\2\0\2", 6),
        std::string("\x16\3\1\0\x10\1", 6)}) {
    EXPECT_EQ(ClientRandom().Feed(bytes), ClientRandom::State::kNotTls);
  }
}

}  // namespace espalier
