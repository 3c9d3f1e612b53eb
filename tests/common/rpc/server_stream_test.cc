// One stream of a server, with a gRPC that the test plays: what a stream starts
// and what it waits for is seen at once.
#include "common/rpc/server_stream.h"

#include <memory>
#include <optional>
#include <string>

#include "espalier/v1/drafter.pb.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using Request = v1::DraftRequest;
using Response = v1::DraftResponse;

// The most answers that may be unanswered.
constexpr int kMaxUnanswered = 1024;

// A handler that answers nothing by itself.
class SilentStream final : public ServerStream<Request, Response> {
 public:
  using ServerStream::StartReading;

  bool answer_follows = true;
  int num_requests = 0;
  int num_settled = 0;
  int num_ended = 0;

 private:
  bool OnRequest(Request) override {
    ++num_requests;
    return answer_follows;
  }
  void OnSettled() override { ++num_settled; }
  void OnEnded() override { ++num_ended; }
  void OnFinished() override {}
};

class PlayedCall final
    : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer,
                                              grpc::ByteBuffer> {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  explicit PlayedCall(Reactor& reactor) : reactor_(reactor) {
    this->BindReactor(&reactor);
  }

  bool is_reading() const { return read_ != nullptr; }
  bool is_writing() const { return written_ != nullptr; }
  uint64_t written_id() const {
    return ReadAs<Response>(*written_)->request_id();
  }
  const std::optional<grpc::Status>& status() const { return status_; }

  void Arrive(const grpc::ByteBuffer& message = WriteMessage(Request())) {
    ASSERT_NE(read_, nullptr);
    *std::exchange(read_, nullptr) = message;
    reactor_.OnReadDone(true);
  }
  void EndOfRequests() {
    ASSERT_NE(std::exchange(read_, nullptr), nullptr);
    reactor_.OnReadDone(false);
  }
  void Written(bool ok = true) {
    ASSERT_NE(std::exchange(written_, nullptr), nullptr);
    reactor_.OnWriteDone(ok);
  }
  void Cancel() { reactor_.OnCancel(); }

 private:
  void Finish(grpc::Status status) override {
    EXPECT_FALSE(is_writing());
    EXPECT_FALSE(status_) << "finished twice";
    status_ = std::move(status);
  }
  void Read(grpc::ByteBuffer* request) override {
    EXPECT_FALSE(is_reading()) << "two reads at once";
    read_ = request;
  }
  void Write(const grpc::ByteBuffer* response, grpc::WriteOptions) override {
    EXPECT_FALSE(is_writing()) << "two writes at once";
    written_ = response;
  }
  void SendInitialMetadata() override {}
  void WriteAndFinish(const grpc::ByteBuffer*, grpc::WriteOptions,
                      grpc::Status) override {}
  grpc::internal::ServerReactor* reactor() override { return &reactor_; }
  void CallOnDone() override {}

  Reactor& reactor_;
  grpc::ByteBuffer* read_ = nullptr;           // in progress
  const grpc::ByteBuffer* written_ = nullptr;  // in progress
  std::optional<grpc::Status> status_;
};

Response WithId(uint64_t id, size_t bytes = 0) {
  Response response;
  response.set_request_id(id);
  response.mutable_failure()->set_message(std::string(bytes, 'x'));
  return response;
}

class ServerStreamTest : public testing::Test {
 protected:
  ServerStreamTest() { stream_.StartReading(); }

  void ArriveUntilPaused() {
    while (call_.is_reading() && stream_.num_requests < 2 * kMaxUnanswered) {
      call_.Arrive();
    }
  }

  SilentStream stream_;
  PlayedCall call_{stream_};
};

TEST_F(ServerStreamTest, ReadingPausesWhileManyRequestsAreUnanswered) {
  ArriveUntilPaused();
  EXPECT_EQ(stream_.num_requests, kMaxUnanswered);
  stream_.SendPart(WithId(1));
  call_.Written();
  EXPECT_FALSE(call_.is_reading()) << "a part is no answer";
  stream_.Answer(WithId(1));
  EXPECT_FALSE(call_.is_reading()) << "nobody has read it";
  call_.Written();
  EXPECT_EQ(stream_.unanswered(), kMaxUnanswered - 1);
  EXPECT_TRUE(call_.is_reading());
  call_.Arrive();
  EXPECT_FALSE(call_.is_reading());
}

TEST_F(ServerStreamTest, MessagesWithoutAnAnswerDoNotPauseIt) {
  stream_.answer_follows = false;
  ArriveUntilPaused();
  EXPECT_EQ(stream_.num_requests, 2 * kMaxUnanswered);
  EXPECT_EQ(stream_.num_settled, 2 * kMaxUnanswered);
  EXPECT_EQ(stream_.unanswered(), 0);
}

TEST_F(ServerStreamTest, AnswersAreWrittenOneByOneAndCountedUntilThen) {
  call_.Arrive();
  call_.Arrive();
  stream_.Answer(WithId(1, 1000), {WithId(1), WithId(1)});
  stream_.Answer(WithId(2, 1000));
  EXPECT_GT(stream_.unread_bytes(), 2000);
  for (const uint64_t id : {1, 1, 1, 2}) {
    ASSERT_TRUE(call_.is_writing());
    EXPECT_EQ(call_.written_id(), id);
    call_.Written();
  }
  EXPECT_FALSE(call_.is_writing());
  EXPECT_EQ(stream_.unread_bytes(), 0);
  EXPECT_EQ(stream_.unanswered(), 0);
}

TEST_F(ServerStreamTest, ClosesWhenAllIsWritten) {
  call_.Arrive();
  stream_.Answer(WithId(1));
  stream_.Close({grpc::StatusCode::UNAVAILABLE, "draining"});
  EXPECT_FALSE(call_.status());
  call_.Written();
  ASSERT_TRUE(call_.status());
  EXPECT_EQ(call_.status()->error_message(), "draining");
  stream_.Answer(WithId(2));
  EXPECT_FALSE(call_.is_writing());
}

TEST_F(ServerStreamTest, APausedStreamNoticesItsEnd) {
  ArriveUntilPaused();
  call_.Cancel();
  EXPECT_EQ(stream_.num_ended, 1);
  EXPECT_TRUE(call_.status());
}

TEST_F(ServerStreamTest, EndsAtARequestThatAPeerMayNotSend) {
  call_.Arrive();
  std::string bytes;
  for (int i = 0; i <= kPeerLimits.unknown; ++i) {
    bytes.append("\xfa\x7f\0", 3);  // field 2047, empty
  }
  const grpc::Slice slice(bytes);
  call_.Arrive(grpc::ByteBuffer(&slice, 1));
  EXPECT_EQ(stream_.num_requests, 1);
  EXPECT_EQ(stream_.num_ended, 1);
  EXPECT_FALSE(call_.is_reading());
  ASSERT_TRUE(call_.status());
  EXPECT_EQ(call_.status()->error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(call_.status()->error_message().find("1024 unknown fields"),
            std::string::npos);
}

// The answers that wait are for nobody.
TEST_F(ServerStreamTest, AfterItsEndOnlyTheWriteInProgressIsAwaited) {
  call_.Arrive();
  stream_.Answer(WithId(1), {WithId(1), WithId(1)});
  call_.EndOfRequests();
  EXPECT_EQ(stream_.num_ended, 1);
  EXPECT_FALSE(call_.status()) << "a write is in progress";
  call_.Cancel();
  EXPECT_EQ(stream_.num_ended, 1);
  call_.Written(false);
  EXPECT_FALSE(call_.is_writing());
  EXPECT_TRUE(call_.status());
  EXPECT_EQ(stream_.unread_bytes(), 0);
}

}  // namespace
}  // namespace espalier
