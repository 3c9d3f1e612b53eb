#include "common/http/server.h"

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/http/client_socket.h"

namespace espalier::http {
namespace {

using ::espalier::testing::ClientSocket;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A stream that a test feeds.
struct Feed {
  void Push(const std::string& piece) {
    {
      MutexLock lock(&mutex);
      pieces.push_back(piece);
    }
    wake();
  }
  std::optional<std::string> Pop() {
    MutexLock lock(&mutex);
    ++asked;
    if (pieces.empty()) return std::nullopt;
    std::string piece = std::move(pieces.front());
    pieces.pop_front();
    return piece;
  }
  Mutex mutex;
  std::deque<std::string> pieces;
  Wake wake;
  std::atomic<int> asked = 0;
  Notification started;
  Notification gone;
};

class FedAnswer final : public Answer {
 public:
  explicit FedAnswer(Feed* feed) : feed_(feed) { feed_->started.Notify(); }
  ~FedAnswer() override { feed_->gone.Notify(); }
  std::optional<Head> Begin() override {
    return Head{.response = {.content_type = "text/event-stream"},
                .is_stream = true};
  }
  std::optional<std::string> Next() override { return feed_->Pop(); }

 private:
  Feed* const feed_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void Serve(Limits limits = {}) {
    uint16_t port = 0;
    const int socket = testing::ListenOnLoopback(port);
    auto server =
        Server::Start({.sockets = {socket},
                       .handler =
                           [this](Request request, Wake wake) {
                             return Handle(std::move(request), std::move(wake));
                           },
                       .limits = limits});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = port;
  }

  std::unique_ptr<Answer> Handle(Request request, Wake wake) {
    if (request.path == "/feed") {
      feed_.wake = std::move(wake);
      return std::make_unique<FedAnswer>(&feed_);
    }
    if (request.path == "/throws") throw std::runtime_error("planted");
    return std::make_unique<WholeAnswer>(Response{
        .content_type = "text/plain",
        .body = absl::StrCat(request.method, " ", request.path, " ",
                             request.query, " ", request.Header("X-One"), " ",
                             request.body.size())});
  }

  std::string Ask(const std::string& bytes) {
    ClientSocket client(port_);
    client.Write(bytes);
    return client.ReadAll();
  }

  Feed feed_;
  uint16_t port_ = 0;
  std::unique_ptr<Server> server_;
};

TEST_F(HttpServerTest, AnswersRequestsOfOneConnectionInTurn) {
  Serve();
  ClientSocket client(port_);
  client.Write("GET /a?b=1 HTTP/1.1\r\nHost: x\r\nx-one: 1\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("GET /a b=1 1 0"), StartsWith("HTTP/1.1 200 "));
  client.Write(
      "POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz"
      "GET /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("POST /c   3"), HasSubstr("keep-alive"));
  EXPECT_THAT(client.ReadAll(), AllOf(HasSubstr("Connection: close"),
                                      ::testing::EndsWith("GET /d   0")));
}

TEST_F(HttpServerTest, ReadsChunkedBodiesAndThoseThatAreAskedFor) {
  Serve();
  EXPECT_THAT(Ask("POST /a HTTP/1.1\r\nConnection: close\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n"
                  "0\r\n\r\n"),
              HasSubstr("POST /a   3"));
  ClientSocket client(port_);
  client.Write(
      "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Write("z");
  EXPECT_THAT(client.ReadUntil("POST /a   1"), HasSubstr(" 200 "));
}

TEST_F(HttpServerTest, AHeadHasNoBodyAndTheLengthOfOne) {
  Serve();
  EXPECT_THAT(Ask("HEAD /a HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(HasSubstr("Content-Length: 11\r\n"),
                    ::testing::EndsWith("\r\n\r\n")));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLargeOrNoRequest) {
  Serve({.header_bytes = 256, .body_bytes = 10});
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(absl::StrCat("GET / HTTP/1.1\r\nX: ", std::string(300, 'x'),
                               "\r\n\r\n")),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("10 bytes")));
  EXPECT_THAT(Ask(absl::StrCat("POST / HTTP/1.1\r\nTransfer-Encoding: "
                               "chunked\r\n\r\nb\r\n",
                               std::string(11, 'x'), "\r\n0\r\n\r\n")),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n" +
                  std::string(1 << 20, 'x')),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, AStreamGoesOutPieceByPiece) {
  Serve();
  ClientSocket client(port_);
  client.Write("GET /feed HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("chunked"));
  feed_.Push("one");
  EXPECT_EQ(client.ReadUntil("one\r\n"), "3\r\none\r\n");
  feed_.Push("three");
  EXPECT_EQ(client.ReadUntil("three\r\n"), "5\r\nthree\r\n");
  feed_.Push("");
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  feed_.gone.Wait();
  client.Write("GET /a HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("GET /a   0"), HasSubstr(" 200 "));
}

TEST_F(HttpServerTest, OldClientsGetAStreamThatEndsWithTheConnection) {
  Serve();
  ClientSocket client(port_);
  client.Write("GET /feed HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), Not(HasSubstr("chunked")));
  feed_.Push("one");
  feed_.Push("");
  EXPECT_EQ(client.ReadAll(), "one");
}

TEST_F(HttpServerTest, AClientThatLeavesEndsItsAnswer) {
  Serve();
  ClientSocket client(port_);
  client.Write("GET /feed HTTP/1.1\r\n\r\n");
  client.ReadUntil("\r\n\r\n");
  client.Close();
  feed_.gone.Wait();  // though nothing was written
  feed_.wake();       // does nothing
}

TEST_F(HttpServerTest, ASlowReaderIsNotAskedForMoreThanItReads) {
  Serve();
  ClientSocket client(port_, /*receive_bytes=*/4096);
  client.Write("GET /feed HTTP/1.1\r\n\r\n");
  feed_.started.Wait();
  const std::string piece(8 << 20, 'x');  // more than the system's buffers hold
  feed_.Push(piece);
  feed_.Push("second");
  feed_.Push("");
  client.ReadUntil("\r\n\r\n");
  client.ReadUntil("\r\nx");
  {
    MutexLock lock(&feed_.mutex);
    EXPECT_EQ(feed_.pieces.size(), 2);
  }
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), HasSubstr("second"));
}

TEST_F(HttpServerTest, ReadersThatStopAndHalfRequestsAreClosed) {
  const absl::Duration kShort = absl::Milliseconds(20);
  Serve({.header_time = kShort,
         .body_time = kShort,
         .idle_time = kShort,
         .write_time = kShort});
  EXPECT_EQ(Ask(""), "");
  EXPECT_EQ(Ask("GET / HT"), "");
  EXPECT_EQ(Ask("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nx"), "");
  ClientSocket client(port_, /*receive_bytes=*/4096);
  client.Write("GET /feed HTTP/1.1\r\n\r\n");
  feed_.started.Wait();
  for (int i = 0; i < 2048; ++i) feed_.Push(std::string(8 << 10, 'x'));
  feed_.gone.Wait();
}

TEST_F(HttpServerTest, ANewConnectionTakesThePlaceOfTheLongestIdle) {
  Serve({.max_connections = 2});
  ClientSocket first(port_);
  first.Write("GET /a HTTP/1.1\r\n\r\n");
  first.ReadUntil("GET /a   0");
  ClientSocket busy(port_);
  busy.Write("GET /feed HTTP/1.1\r\n\r\n");
  busy.ReadUntil("\r\n\r\n");
  // The first is idle once the server knows that its answer has gone out.
  std::optional<ClientSocket> third;
  do {
    third.emplace(port_);
    third->Write(
        "POST /c HTTP/1.1\r\nContent-Length: 1\r\n"
        "Expect: 100-continue\r\n\r\n");
  } while (!absl::StrContains(third->ReadUntil("\r\n\r\n"), " 100 "));
  EXPECT_EQ(first.ReadAll(), "");
  third->Write("x");
  EXPECT_THAT(third->ReadUntil("POST /c   1"), HasSubstr(" 200 "));
  EXPECT_EQ(server_->num_connections(), 2);
}

TEST_F(HttpServerTest, WithoutAnIdleConnectionANewOneIsRefused) {
  Serve({.max_connections = 1});
  ClientSocket busy(port_);
  busy.Write("GET /feed HTTP/1.1\r\n\r\n");
  busy.ReadUntil("\r\n\r\n");
  ClientSocket refused(port_);
  EXPECT_THAT(refused.ReadAll(), StartsWith("HTTP/1.1 503 "));
  feed_.Push("still served");
  busy.ReadUntil("still served");
}

TEST_F(HttpServerTest, BodiesTogetherAreBounded) {
  Serve({.body_bytes = 100, .all_body_bytes = 100});
  ClientSocket half(port_);
  half.Write(
      "POST /a HTTP/1.1\r\nContent-Length: 80\r\n"
      "Expect: 100-continue\r\n\r\n");
  half.ReadUntil("\r\n\r\n");
  half.Write(std::string(79, 'x'));
  const std::string other =
      "POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: 22\r\n\r\n" +
      std::string(22, 'x');
  // Until the other body has arrived.
  while (!absl::StartsWith(Ask(other), "HTTP/1.1 503 ")) {
  }
  half.Write("x");
  half.ReadUntil("POST /a   80");
  EXPECT_THAT(Ask("POST /a HTTP/1.1\r\nConnection: close\r\n"
                  "Content-Length: 21\r\n\r\n" +
                  std::string(21, 'x')),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AThousandIdleConnectionsDelayNobody) {
  Serve();
  std::vector<ClientSocket> idle;
  for (int i = 0; i < 1000; ++i) idle.emplace_back(port_).Write("GET ");
  EXPECT_THAT(Ask("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n"),
              HasSubstr(" 200 "));
}

TEST_F(HttpServerTest, AHandlerThatThrowsIsAnError) {
  Serve();
  EXPECT_THAT(Ask("GET /throws HTTP/1.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("planted"))));
}

TEST_F(HttpServerTest, DrainFinishesAnswersAndClosesIdleConnections) {
  Serve();
  ClientSocket idle(port_);
  idle.Write("GET /a HTTP/1.1\r\n\r\n");
  idle.ReadUntil("GET /a   0");
  ClientSocket busy(port_);
  busy.Write("GET /feed HTTP/1.1\r\n\r\n");
  busy.ReadUntil("\r\n\r\n");
  std::thread drain([this] { server_->Drain(absl::InfiniteFuture()); });
  EXPECT_EQ(idle.ReadAll(), "");
  feed_.Push("rest");
  feed_.Push("");
  EXPECT_THAT(busy.ReadAll(), HasSubstr("rest"));
  drain.join();
  EXPECT_EQ(Ask("GET /a HTTP/1.1\r\n\r\n"), "");
}

TEST_F(HttpServerTest, TheEndOfTheServerEndsAnswers) {
  Serve();
  ClientSocket busy(port_);
  busy.Write("GET /feed HTTP/1.1\r\n\r\n");
  busy.ReadUntil("\r\n\r\n");
  server_.reset();
  feed_.gone.Wait();
  feed_.wake();  // does nothing
  EXPECT_EQ(busy.ReadAll(), "");
}

}  // namespace
}  // namespace espalier::http
