#include "common/rpc/http_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace espalier {
namespace {

class HttpConnectionsTest : public testing::Test {
 protected:
  // Returns the client's side of a new connection.
  int Connect() {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    connections_.Add(pair[0], now_);
    return pair[1];
  }
  void Send(int fd, const std::string& bytes) {
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  // Serves like the listener's loop, until nothing is ready.
  void Serve() {
    std::vector<pollfd> polled;
    do {
      polled.clear();
      connections_.AppendTo(polled);
      const int ready = poll(polled.data(), polled.size(), 0);
      connections_.Serve(polled.data(), now_);
      if (ready == 0) return;
    } while (true);
  }
  // Returns what the server has sent, and whether it has closed its side.
  std::string Read(int fd) {
    std::string all;
    char buffer[4096];
    ssize_t size;
    while ((size = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
      all.append(buffer, static_cast<size_t>(size));
    }
    // A connection that is closed with bytes unread is reset.
    const bool ended = size == 0 || errno == ECONNRESET;
    return all + (ended ? "|" : "");
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  HttpConnections connections_{[](const absl::StatusOr<HttpRequest>& request) {
    return request.ok() ? "page " + request->path : "none";
  }};
};

TEST_F(HttpConnectionsTest, AnswersOneRequestAndCloses) {
  const int client = Connect();
  Send(client, "GET /x HTTP/1.1\r\n");
  Serve();
  EXPECT_EQ(Read(client), "");
  Send(client, "\r\nmore");
  Serve();
  EXPECT_EQ(Read(client), "page /x|");
  close(client);
  Serve();
  EXPECT_EQ(connections_.size(), 0u);
}

TEST_F(HttpConnectionsTest, ManySlowRequestsDelayNobody) {
  std::vector<int> slow;
  for (size_t i = 0; i < HttpConnections::kMost + 50; ++i) {
    slow.push_back(Connect());
    Send(slow.back(), "GET");
  }
  const int client = Connect();
  Send(client, "GET / HTTP/1.1\r\n\r\n");
  Serve();
  EXPECT_EQ(Read(client), "page /|");
  EXPECT_EQ(Read(slow.front()), "|") << "the oldest has gone";
  EXPECT_EQ(connections_.size(), HttpConnections::kMost);
  for (int fd : slow) close(fd);
  close(client);
}

TEST_F(HttpConnectionsTest, ARequestHasALimitHoweverOftenBytesArrive) {
  const int client = Connect();
  for (int i = 0; i < 3; ++i) {
    now_ += absl::Milliseconds(600);
    Send(client, "x");
    Serve();
    EXPECT_EQ(Read(client), "") << i;
  }
  now_ += absl::Milliseconds(300);
  Serve();
  EXPECT_EQ(Read(client), "|");
  close(client);
}

TEST_F(HttpConnectionsTest, WhatIsNoRequestGetsAnAnswer) {
  const int client = Connect();
  Send(client, "hello\r\n\r\n");
  Serve();
  EXPECT_EQ(Read(client), "none|");
  close(client);
}

}  // namespace
}  // namespace espalier
