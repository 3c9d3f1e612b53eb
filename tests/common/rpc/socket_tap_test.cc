#include "common/rpc/socket_tap.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace espalier {
namespace {

class Recorder final : public SocketObserver {
 public:
  bool OnReceived(absl::string_view bytes) override {
    received += std::string(bytes);
    return go_on;
  }
  bool OnSent(absl::string_view bytes) override {
    sent += std::string(bytes);
    return go_on;
  }
  std::string received, sent;
  bool go_on = true;
};

class SocketTapTest : public testing::Test {
 protected:
  SocketTapTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair_), 0);
    EXPECT_TRUE(TapSocket(pair_[0], recorder_));
  }
  ~SocketTapTest() override {
    Untap(pair_[0], *recorder_);
    close(pair_[0]);
    close(pair_[1]);
  }

  static ssize_t Receive(int fd, int flags = 0) {
    char first[2];
    char second[64];
    iovec pieces[2] = {{first, sizeof(first)}, {second, sizeof(second)}};
    msghdr message = {};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    return recvmsg(fd, &message, flags);
  }
  static ssize_t Send(int fd, std::string bytes) {
    iovec piece = {bytes.data(), bytes.size()};
    msghdr message = {};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    return sendmsg(fd, &message, 0);
  }

  int pair_[2] = {};
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
};

TEST_F(SocketTapTest, ShowsBothDirectionsOfTheTappedSocketOnly) {
  EXPECT_EQ(Send(pair_[0], "hello"), 5);
  EXPECT_EQ(Receive(pair_[1]), 5);
  EXPECT_EQ(Send(pair_[1], "answer"), 6);
  EXPECT_EQ(Receive(pair_[0], MSG_PEEK), 6);
  EXPECT_EQ(Receive(pair_[0]), 6);
  EXPECT_EQ(Receive(pair_[0]), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(recorder_->sent, "hello");
  EXPECT_EQ(recorder_->received, "answer");
}

TEST_F(SocketTapTest, AnObserverEndsTheConnectionForBothSides) {
  recorder_->go_on = false;
  EXPECT_EQ(Send(pair_[1], "abuse"), 5);
  EXPECT_EQ(Receive(pair_[0]), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(Receive(pair_[1]), 0);
}

TEST_F(SocketTapTest, ASocketWithTheNumberOfAClosedOneIsNotShown) {
  const int number = pair_[0];
  close(number);
  int other[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other), 0);
  ASSERT_EQ(other[0], number) << "the system takes the lowest free number";
  CloseTapped(number, *recorder_);  // not this one
  EXPECT_EQ(Send(other[0], "hello"), 5);
  EXPECT_EQ(recorder_->sent, "");
  EXPECT_TRUE(ForgetClosed(number, *recorder_));
  pair_[0] = other[0];
  close(other[1]);
}

TEST_F(SocketTapTest, CanBeEndedFromOutside) {
  EXPECT_FALSE(ForgetClosed(pair_[0], *recorder_));
  CloseTapped(pair_[0], *recorder_);
  EXPECT_EQ(Receive(pair_[1]), 0);
  EXPECT_FALSE(TapSocket(kMaxTapped + 1, recorder_));
}

}  // namespace
}  // namespace espalier
