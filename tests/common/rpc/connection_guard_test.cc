#include "common/rpc/connection_guard.h"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"

namespace espalier {
namespace {

// A server's socket that is watched, and its client's.
class Pair {
 public:
  explicit Pair(ConnectionGuard& guard) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    EXPECT_TRUE(guard.Watch(ends_[0]));
  }
  ~Pair() {
    close(ends_[0]);
    close(ends_[1]);
  }

  // Sends bytes and lets the server read them, as gRPC does. False: the
  // connection is closed.
  bool Send(std::string bytes) {
    if (send(ends_[1], bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
      return false;
    }
    iovec piece = {bytes.data(), bytes.size()};
    msghdr message = {};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    return recvmsg(ends_[0], &message, 0) > 0;
  }
  bool is_closed() {
    char byte;
    return recv(ends_[1], &byte, 1, 0) == 0;
  }

 private:
  int ends_[2];
};

// Returns the preface, and a call with `size` bytes of a message of 1 MiB.
std::string HalfMessage(size_t size) {
  const std::string content =
      std::string("\0\0\x10\0\0", 5) + std::string(size, 'x');
  const auto length = static_cast<uint32_t>(content.size());
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes += std::string("\0\0\0\1\4\0\0\0\1", 9);  // HEADERS of stream 1
  for (const int shift : {16, 8, 0}) {
    bytes.push_back(static_cast<char>(length >> shift));
  }
  return bytes + std::string("\0\0\0\0\0\1", 6) + content;
}

class ConnectionGuardTest : public testing::Test {
 protected:
  ~ConnectionGuardTest() override { guard_->Stop(); }

  double closed(const std::string& reason) {
    for (const auto& family : registry_->Collect()) {
      for (const auto& metric : family.metric) {
        if (metric.label[0].value == reason) return metric.counter.value;
      }
    }
    return 0;
  }

  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
  std::shared_ptr<ConnectionGuard> guard_ =
      ConnectionGuard::New({.connection = {.message_time = absl::Seconds(60)},
                            .max_unfinished_bytes = 10'000},
                           registry_);
};

TEST_F(ConnectionGuardTest, AboveTheBudgetTheLargestGoes) {
  Pair large(*guard_), small(*guard_), last(*guard_);
  EXPECT_TRUE(large.Send(HalfMessage(5000)));
  EXPECT_TRUE(small.Send(HalfMessage(3000)));
  EXPECT_TRUE(last.Send(HalfMessage(4000)));
  EXPECT_TRUE(large.is_closed());
  EXPECT_FALSE(small.is_closed());
  EXPECT_FALSE(last.is_closed());
  EXPECT_EQ(closed("unfinished_bytes"), 1);
}

TEST_F(ConnectionGuardTest, ConnectionsThatEndGiveTheirShareBack) {
  for (int i = 0; i < 10; ++i) {
    Pair pair(*guard_);
    EXPECT_TRUE(pair.Send(HalfMessage(6000)));
    EXPECT_FALSE(pair.is_closed());
  }
  EXPECT_EQ(closed("unfinished_bytes"), 0);
}

TEST_F(ConnectionGuardTest, AMessageThatDoesNotEndIsNotWaitedFor) {
  Pair slow(*guard_), idle(*guard_);
  EXPECT_TRUE(slow.Send(HalfMessage(100)));
  guard_->Sweep(absl::Now());
  EXPECT_FALSE(slow.is_closed());
  guard_->Sweep(absl::Now() + absl::Seconds(61));
  EXPECT_TRUE(slow.is_closed());
  EXPECT_FALSE(idle.is_closed());
  EXPECT_EQ(closed("slow_message"), 1);
}

TEST_F(ConnectionGuardTest, WatchesNothingAfterItsStop) {
  Pair pair(*guard_);
  guard_->Stop();
  EXPECT_TRUE(pair.Send(HalfMessage(50'000)));
  EXPECT_FALSE(pair.is_closed());
}

}  // namespace
}  // namespace espalier
