#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/notification.h"
#include "common/http/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/http/client_socket.h"
#include "tests/common/http/tls_client.h"
#include "tests/testing/test_certificates.h"

namespace espalier::http {
namespace {

using ::testing::EndsWith;
using ::testing::IsEmpty;
using testing::IssuedCertificate;
using testing::ReplaceFile;
using ::testing::StartsWith;
using testing::TestAuthority;
using testing::TlsClient;

constexpr char kRequest[] =
    "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

// An answer that never begins.
class NoAnswer final : public Answer {
 public:
  NoAnswer(Notification* began, Notification* gone) : gone_(gone) {
    began->Notify();
  }
  ~NoAnswer() override { gone_->Notify(); }
  std::optional<Head> Begin() override { return std::nullopt; }
  std::optional<std::string> Next() override { return std::nullopt; }

 private:
  Notification* const gone_;
};

class TlsServerTest : public ::testing::Test {
 protected:
  static std::string File(const std::string& kind) {
    return ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() +
           "." + kind;
  }

  static void Install(const std::string& who, const IssuedCertificate& issued) {
    ReplaceFile(File(who + ".crt"), issued.certificate);
    ReplaceFile(File(who + ".key"), issued.key);
  }

  void Serve(bool wants_certificates, Limits limits = {}) {
    ReplaceFile(File("ca"), authority_.pem());
    Install("server", authority_.Issue({"localhost"}));
    auto files =
        CertificateFiles::Open({.certificate = File("server.crt"),
                                .key = File("server.key"),
                                .ca = wants_certificates ? File("ca") : ""});
    ASSERT_TRUE(files.ok()) << files.status();
    const int socket = testing::ListenOnLoopback(port_);
    auto server = Server::Start(
        {.sockets = {socket},
         .handler = [this](const Request& request,
                           const Wake&) -> std::unique_ptr<Answer> {
           if (request.path == "/never") {
             return std::make_unique<NoAnswer>(&began_, &gone_);
           }
           return std::make_unique<WholeAnswer>(
               Response{.body = "path " + request.path});
         },
         .limits = limits,
         .certificates = *files});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  const TestAuthority authority_{"ours"};
  Notification began_;
  Notification gone_;
  uint16_t port_ = 0;
  std::unique_ptr<Server> server_;
};

TEST_F(TlsServerTest, AnswersAndSaysFarewell) {
  Serve(/*wants_certificates=*/false);
  TlsClient client(port_, File("ca"));
  ASSERT_TRUE(client.Shake());
  client.Write(kRequest);
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, EndsWith("path /a"));
  EXPECT_TRUE(client.had_farewell());
}

TEST_F(TlsServerTest, ProtocolsBeforeVersion12AreRefused) {
  Serve(/*wants_certificates=*/false);
  TlsClient client(port_, File("ca"));
  SSL_set_security_level(client.ssl(), 0);
  SSL_set_min_proto_version(client.ssl(), TLS1_VERSION);
  SSL_set_max_proto_version(client.ssl(), TLS1_1_VERSION);
  EXPECT_FALSE(client.Shake());
}

TEST_F(TlsServerTest, NothingIsRenegotiated) {
  Serve(/*wants_certificates=*/false);
  TlsClient client(port_, File("ca"));
  SSL_set_max_proto_version(client.ssl(), TLS1_2_VERSION);
  ASSERT_TRUE(client.Shake());
  SSL_renegotiate(client.ssl());
  EXPECT_NE(SSL_do_handshake(client.ssl()), 1);
}

TEST_F(TlsServerTest, ClientsNeedTheRightCertificate) {
  Serve(/*wants_certificates=*/true);
  const auto ask = [&](const IssuedCertificate& own) {
    Install("client", own);
    TlsClient client(port_, File("ca"), File("client.crt"), File("client.key"));
    client.Shake();
    client.Write(kRequest);
    return client.ReadAll();
  };
  EXPECT_THAT(ask(authority_.Issue({"me"})), EndsWith("path /a"));
  EXPECT_THAT(ask(TestAuthority("another").Issue({"me"})), IsEmpty());
  EXPECT_THAT(ask(authority_.Issue({"me"}, {.ends = -absl::Minutes(1)})),
              IsEmpty());
  TlsClient without(port_, File("ca"));
  without.Shake();
  without.Write(kRequest);
  EXPECT_THAT(without.ReadAll(), IsEmpty());
}

TEST_F(TlsServerTest, PlainRequestsGetNothing) {
  Serve(/*wants_certificates=*/false);
  testing::ClientSocket client(port_);
  client.Write(kRequest);
  EXPECT_THAT(client.ReadAll(), ::testing::Not(::testing::HasSubstr("200")));
}

TEST_F(TlsServerTest, NewConnectionsGetANewCertificate) {
  Serve(/*wants_certificates=*/false);
  TlsClient old(port_, File("ca"));
  ASSERT_TRUE(old.Shake());
  const TestAuthority next("next");
  ReplaceFile(File("next.ca"), next.pem());
  Install("server", next.Issue({"localhost"}));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  bool shaken = false;
  while (!shaken && absl::Now() < deadline) {
    shaken = TlsClient(port_, File("next.ca")).Shake();
  }
  EXPECT_TRUE(shaken);
  old.Write(kRequest);
  EXPECT_THAT(old.ReadAll(), EndsWith("path /a"));
}

TEST_F(TlsServerTest, AHandshakeThatDoesNotFinishHasALimit) {
  Serve(/*wants_certificates=*/false, {.header_time = absl::Milliseconds(50)});
  testing::ClientSocket client(port_);
  client.Write("\x16\x03\x01");
  EXPECT_THAT(client.ReadAll(), IsEmpty());
}

TEST_F(TlsServerTest, AClientThatLeavesIsNoticed) {
  Serve(/*wants_certificates=*/false);
  {
    TlsClient client(port_, File("ca"));
    ASSERT_TRUE(client.Shake());
    client.Write("GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    began_.Wait();
  }
  EXPECT_TRUE(gone_.WaitUntil(absl::Now() + absl::Seconds(60)));
}

}  // namespace
}  // namespace espalier::http
