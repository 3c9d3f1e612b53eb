#include "common/rpc/connection_watch.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace espalier {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  const std::string& payload = "") {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string frame;
  for (const uint32_t byte :
       {size >> 16, size >> 8, size, uint32_t{type}, uint32_t{flags},
        stream >> 24, stream >> 16, stream >> 8, stream}) {
    frame.push_back(static_cast<char>(byte));
  }
  return frame + payload;
}

std::string Headers(uint32_t stream, uint8_t more_flags = 0) {
  return Frame(Http2Frame::kHeaders,
               static_cast<uint8_t>(Http2Frame::kEndHeaders | more_flags),
               stream, "headers");
}

std::string Reset(uint32_t stream) {
  return Frame(Http2Frame::kRstStream, 0, stream, std::string(4, '\0'));
}

// Returns a gRPC message's flag and size, and `sent` of its bytes.
std::string Message(uint32_t size, size_t sent) {
  std::string bytes = {'\0'};
  for (const int shift : {24, 16, 8, 0}) {
    bytes.push_back(static_cast<char>(size >> shift));
  }
  return bytes + std::string(sent, 'x');
}

std::string Data(uint32_t stream, const std::string& bytes, uint8_t flags = 0) {
  return Frame(Http2Frame::kData, flags, stream, bytes);
}

class ConnectionWatchTest : public testing::Test {
 protected:
  ConnectionWatchTest() { EXPECT_EQ(Receive(kPreface), ""); }

  std::string Receive(const std::string& bytes) {
    return std::string(watch_.Received(bytes, now_));
  }
  std::string Send(const std::string& bytes) {
    return std::string(watch_.Sent(bytes, now_));
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  ConnectionWatch watch_{{.max_streams = 4,
                          .max_header_bytes = 100,
                          .message_time = absl::Seconds(60),
                          .reset_burst = 10,
                          .resets_per_second = 2,
                          .control_burst = 10,
                          .controls_per_second = 2}};
};

TEST_F(ConnectionWatchTest, FewerStreamsThanTheLimitAtATimeAreFine) {
  for (uint32_t stream = 1; stream < 2000; stream += 2) {
    ASSERT_EQ(Receive(Headers(stream) +
                      Data(stream, Message(3, 3), Http2Frame::kEndStream)),
              "");
    ASSERT_EQ(Send(Headers(stream, Http2Frame::kEndStream)), "");
  }
  EXPECT_EQ(watch_.unfinished_bytes(), 0);
}

TEST_F(ConnectionWatchTest, ManyOpenStreamsAreBlamed) {
  std::string blame;
  uint32_t opened = 0;
  while (blame.empty() && opened < 100)
    blame = Receive(Headers(++opened * 2 - 1));
  EXPECT_EQ(blame, "streams");
  EXPECT_EQ(opened, 4u + 28 + 1);
}

// HTTP/2 frees the place of a stream that was reset at once, so the number of
// open streams does not show them.
TEST_F(ConnectionWatchTest, RapidResetsAreBlamedAndRareOnesAreNot) {
  uint32_t stream = 1;
  const auto reset = [&] {
    stream += 2;
    return Receive(Headers(stream) + Reset(stream));
  };
  for (int i = 0; i < 10; ++i) ASSERT_EQ(reset(), "") << i;
  for (int i = 0; i < 100; ++i) {
    now_ += absl::Milliseconds(500);
    ASSERT_EQ(reset(), "") << i;
  }
  std::string blame;
  for (int i = 0; i < 11; ++i) blame = reset();
  EXPECT_EQ(blame, "resets");
}

TEST_F(ConnectionWatchTest, PingsAndSettingsAreBlamedButNotTheirAnswers) {
  const std::string ack =
      Frame(Http2Frame::kPing, Http2Frame::kAck, 0, "12345678") +
      Frame(Http2Frame::kSettings, Http2Frame::kAck, 0);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Receive(ack), "");
  std::string blame;
  for (int i = 0; i < 6; ++i) {
    blame = Receive(Frame(Http2Frame::kPing, 0, 0, "12345678") +
                    Frame(Http2Frame::kSettings, 0, 0));
  }
  EXPECT_EQ(blame, "control_frames");
}

TEST_F(ConnectionWatchTest, HeadersThatGoOnAreBlamed) {
  EXPECT_EQ(Receive(Frame(Http2Frame::kHeaders, 0, 1, std::string(60, 'x'))),
            "");
  EXPECT_EQ(
      Receive(Frame(Http2Frame::kContinuation, 0, 1, std::string(60, 'x'))),
      "header_bytes");
}

TEST_F(ConnectionWatchTest, UnfinishedMessagesCountUntilTheyAreComplete) {
  const std::string bytes =
      Headers(1) + Data(1, Message(1000, 0)) + Data(1, std::string(900, 'x'));
  for (const char byte : bytes) ASSERT_EQ(Receive(std::string(1, byte)), "");
  EXPECT_EQ(watch_.unfinished_bytes(), 905);
  EXPECT_EQ(Receive(Data(1, std::string(100, 'x') + Message(10, 4))), "");
  EXPECT_EQ(watch_.unfinished_bytes(), 9);
  EXPECT_EQ(Receive(Headers(3) + Data(3, Message(50, 20))), "");
  EXPECT_EQ(watch_.unfinished_bytes(), 34);
  EXPECT_EQ(Receive(Reset(3)), "");
  EXPECT_EQ(watch_.unfinished_bytes(), 9);
}

TEST_F(ConnectionWatchTest, WhatTheServerHasRefusedDoesNotCount) {
  EXPECT_EQ(Receive(Headers(1) + Data(1, Message(1000, 900))), "");
  EXPECT_EQ(Send(Headers(1, Http2Frame::kEndStream)), "");
  EXPECT_EQ(watch_.unfinished_bytes(), 0);
  EXPECT_EQ(Receive(Data(1, std::string(50, 'x'))), "");
  EXPECT_EQ(watch_.unfinished_bytes(), 0);
  now_ += absl::Hours(1);
  EXPECT_EQ(watch_.CheckTime(now_), "");
}

TEST_F(ConnectionWatchTest, AMessageThatTakesTooLongIsBlamed) {
  EXPECT_EQ(Receive(Headers(1) + Data(1, Message(10, 10))), "");
  now_ += absl::Hours(1);
  EXPECT_EQ(watch_.CheckTime(now_), "") << "an open stream without a message";
  EXPECT_EQ(Receive(Data(1, Message(10, 1))), "");
  now_ += absl::Seconds(59);
  EXPECT_EQ(Receive(Data(1, "x")), "");
  EXPECT_EQ(watch_.CheckTime(now_), "");
  now_ += absl::Seconds(2);
  EXPECT_EQ(watch_.CheckTime(now_), "slow_message");
}

TEST_F(ConnectionWatchTest, ACallWithoutAMessageIsBlamed) {
  EXPECT_EQ(Receive(Headers(1)), "");
  now_ += absl::Seconds(61);
  EXPECT_EQ(watch_.CheckTime(now_), "slow_message");
}

}  // namespace
}  // namespace espalier
