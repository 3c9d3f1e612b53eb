#include "common/http/page_server.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/http/client_socket.h"

namespace espalier::http {
namespace {

using ::testing::AllOf;
using testing::ClientSocket;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PageServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const int socket = testing::ListenOnLoopback(port_);
    auto server = PageServer::Start(
        {.sockets = {socket},
         .pages = {{.path = "/",
                    .content_type = "text/html",
                    .body =
                        [](absl::string_view query) {
                          return absl::StrCat("<", query, ">");
                        }},
                   {.path = "/open",
                    .content_type = "text/plain",
                    .body = [](absl::string_view) { return "open"; },
                    .any_host = true}},
         .hosts = {"good.example"}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string Ask(absl::string_view line, absl::string_view host,
                  absl::string_view more = "") {
    ClientSocket client(port_);
    client.Write(absl::StrCat(line, " HTTP/1.1\r\nHost: ", host,
                              "\r\nConnection: close\r\n", more, "\r\n"));
    return client.ReadAll();
  }

  uint16_t port_ = 0;
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, APageHasItsTypeAndAllowsNoOthersContent) {
  EXPECT_THAT(
      Ask("GET /?a=%20b", "localhost"),
      AllOf(StartsWith("HTTP/1.1 200 "),
            HasSubstr("Content-Type: text/html\r\n"),
            HasSubstr("Content-Security-Policy: default-src 'none'; "),
            HasSubstr("Cache-Control: no-store\r\n"), EndsWith("<a=%20b>")));
  EXPECT_THAT(Ask("HEAD /open", "x"),
              AllOf(HasSubstr("Content-Length: 4\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(PageServerTest, OnlyPagesOfAnyHostAnswerToAnyHost) {
  EXPECT_THAT(Ask("GET /", "evil.example"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Ask("GET /", "good.example:80"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask("GET /open", "evil.example"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(PageServerTest, RefusesOtherPathsMethodsAndBodies) {
  EXPECT_THAT(Ask("GET /x", "localhost"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("POST /", "localhost"), AllOf(StartsWith("HTTP/1.1 405 "),
                                                HasSubstr("Allow: GET, HEAD")));
  EXPECT_THAT(Ask("POST /", "localhost", "Content-Length: 1\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask("GET /" + std::string(9000, 'a'), "localhost"),
              StartsWith("HTTP/1.1 431 "));
}

TEST_F(PageServerTest, ManyHalfRequestsDelayNobody) {
  std::vector<ClientSocket> slow;
  for (int i = 0; i < 300; ++i) {
    slow.emplace_back(port_);
    slow.back().Write("GET");
  }
  EXPECT_THAT(Ask("GET /open", "x"), StartsWith("HTTP/1.1 200 "));
  // The first had to make room.
  EXPECT_EQ(slow.front().ReadAll(), "");
}

TEST_F(PageServerTest, ARequestThatDoesNotEndIsClosed) {
  ClientSocket slow(port_);
  slow.Write("GET / HTTP/1.1\r\nHost: localhost\r\n");
  EXPECT_EQ(slow.ReadAll(), "");
}

}  // namespace
}  // namespace espalier::http
