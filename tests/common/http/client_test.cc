#include "common/http/client.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/http/server.h"
#include "gtest/gtest.h"
#include "tests/common/http/client_socket.h"

namespace espalier::http {
namespace {

// A stream of two parts, of which the second comes when the first was sent.
class TwoParts final : public Answer {
 public:
  explicit TwoParts(Wake wake) : wake_(std::move(wake)) {}
  std::optional<Head> Begin() override {
    return Head{.response = {.content_type = "text/plain", .body = "one"},
                .is_stream = true};
  }
  std::optional<std::string> Next() override {
    if (++asked_ == 2) return "two";
    if (asked_ > 2) return "";
    wake_();
    return std::nullopt;
  }

 private:
  const Wake wake_;
  int asked_ = 0;
};

class HttpClientTest : public ::testing::Test {
 protected:
  void Serve(Limits limits = {}) {
    uint16_t port = port_;
    const int socket = testing::ListenOnLoopback(port);
    auto server = Server::Start(
        {.sockets = {socket},
         .handler = [](Request request, Wake wake) -> std::unique_ptr<Answer> {
           if (request.path == "/stream") {
             return std::make_unique<TwoParts>(std::move(wake));
           }
           return std::make_unique<WholeAnswer>(
               Response{.status = request.path == "/echo" ? 200 : 404,
                        .body = request.body});
         },
         .limits = limits});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = port;
    auto client =
        Client::Create(absl::StrCat("http://127.0.0.1:", port, "/v1"));
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  absl::StatusOr<int> Post(const std::string& path, const std::string& body) {
    body_.clear();
    return client_->Post(
        path, body, {.timeout = absl::Minutes(1)},
        [&](absl::string_view part) { absl::StrAppend(&body_, part); });
  }

  uint16_t port_ = 0;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
  std::string body_;
};

TEST_F(HttpClientTest, GetsWholeAnswersAndStreamsOverOneConnection) {
  Serve();
  EXPECT_EQ(Post("/echo", "{}").value(), 200);
  EXPECT_EQ(body_, "{}");
  EXPECT_EQ(Post("/nope", "{}").value(), 404);
  EXPECT_EQ(Post("/stream", "{}").value(), 200);
  EXPECT_EQ(body_, "onetwo");
}

TEST_F(HttpClientTest, WhereNobodyListensItIsUnavailable) {
  Serve();
  server_.reset();
  EXPECT_EQ(Post("/echo", "{}").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(HttpClientTest, AStopEndsARequest) {
  uint16_t port = 0;
  const int socket = testing::ListenOnLoopback(port);  // nobody answers
  const auto client = Client::Create(absl::StrCat("http://127.0.0.1:", port));
  std::stop_source stop;
  stop.request_stop();
  const auto status = (*client)->Post(
      "/", "{}", {.timeout = absl::Minutes(1), .interrupt = stop.get_token()},
      [](absl::string_view) {});
  EXPECT_EQ(status.status().code(), absl::StatusCode::kCancelled);
  close(socket);
}

TEST(HttpClientUrlTest, OthersAreRefused) {
  for (const char* url :
       {"", "127.0.0.1:80", "https://a:1", "http://a", "http://:1"}) {
    EXPECT_EQ(Client::Create(url).status().code(),
              absl::StatusCode::kInvalidArgument)
        << url;
  }
}

}  // namespace
}  // namespace espalier::http
