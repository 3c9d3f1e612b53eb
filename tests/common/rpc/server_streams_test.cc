// Streams that our clients never send.
#include "common/rpc/server_streams.h"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/rpc/convert.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/wire.h"
#include "espalier/v1/verifier.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/server_streams_fixture.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

TEST_F(ServerStreamsTest, FirstMessageMustBeAHello) {
  EXPECT_EQ(EndAfter(Propose(1, 1)).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(EndAfter(v1::DraftRequest()).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ServerStreamsTest, CoordinatorThatDoesNotFitIsRefusedWithTheReason) {
  v1::DraftRequest hello = Hello();
  hello.mutable_hello()->set_protocol_version(3);
  grpc::Status status = EndAfter(hello);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(),
              HasSubstr("protocol version 3, this side 2"));

  hello = Hello();
  hello.mutable_hello()->mutable_model()->set_vocab_size(5);
  EXPECT_THAT(EndAfter(hello).error_message(),
              HasSubstr("vocabulary of 5 tokens"));
  hello = Hello();
  hello.mutable_hello()->mutable_model()->set_tokenizer_fingerprint(5);
  EXPECT_THAT(EndAfter(hello).error_message(), HasSubstr("fingerprint"));
  hello = Hello();
  hello.mutable_hello()->clear_model();
  EXPECT_EQ(EndAfter(hello).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  hello.mutable_hello()->mutable_model()->set_vocab_size(~uint64_t{0});
  EXPECT_THAT(EndAfter(hello).error_message(), HasSubstr("malformed hello"));
}

TEST_F(ServerStreamsTest, BadMessagesAreAnsweredAndTheStreamGoesOn) {
  Client client = OpenWithHello();
  v1::DraftRequest request;
  request.set_request_id(2);
  ExpectFailure(client.Ask(request), 2, absl::StatusCode::kInvalidArgument);
  ExpectFailure(client.Ask(Hello()), 1, absl::StatusCode::kInvalidArgument);
  ExpectFailure(client.Ask(Propose(0, 1)), 0,
                absl::StatusCode::kInvalidArgument);

  request = Propose(3, 1);
  request.mutable_propose()->mutable_update()->mutable_key()->set_epoch(10);
  ExpectFailure(client.Ask(request), 3, absl::StatusCode::kInvalidArgument);
  request = Propose(4, 1);
  request.mutable_propose()->mutable_update()->add_new_tokens(1000);
  ExpectFailure(client.Ask(request), 4, absl::StatusCode::kInvalidArgument);
  request = Propose(5, 1);
  request.mutable_propose()->clear_update();
  ExpectFailure(client.Ask(request), 5, absl::StatusCode::kInvalidArgument);

  EXPECT_TRUE(client.Ask(Propose(6, 1)).has_proposal());
}

TEST_F(ServerStreamsTest, FeaturesBelongToTheRequestThatFollows) {
  Client client = OpenWithHello();
  v1::DraftRequest chunk;
  chunk.mutable_features()->set_num_rows(1);
  chunk.mutable_features()->set_type(v1::FEATURE_TYPE_BF16);
  chunk.mutable_features()->set_data("wxyz");
  chunk.set_request_id(2);
  EXPECT_TRUE(client.stream->Write(chunk));
  EXPECT_TRUE(client.Ask(Propose(2, 1)).has_proposal());
  EXPECT_EQ(draft_engine_.last().features.num_rows(), 1);

  EXPECT_TRUE(client.stream->Write(chunk));  // request 2 has been answered
  EXPECT_TRUE(client.Ask(Propose(3, 1)).has_proposal());
  EXPECT_TRUE(draft_engine_.last().features.empty());

  chunk.set_request_id(4);
  chunk.mutable_features()->set_data("xyz");  // half a number
  EXPECT_TRUE(client.stream->Write(chunk));
  ExpectFailure(client.Ask(Propose(4, 1)), 4,
                absl::StatusCode::kInvalidArgument);
}

// Parts so small that bytes do not bound them.
TEST_F(ServerStreamsTest, PartsWithoutARequestAreBoundedByNumber) {
  constexpr int kMaxParts = 256;
  Client client = OpenWithHello();
  const auto rows_of = [&](uint64_t id, int num_parts) {
    v1::DraftRequest chunk;
    chunk.set_request_id(id);
    chunk.mutable_features()->set_num_rows(1);
    chunk.mutable_features()->set_type(v1::FEATURE_TYPE_BF16);
    chunk.mutable_features()->set_data("wx");
    for (int part = 0; part < num_parts; ++part) {
      chunk.mutable_features()->set_first_position(part);
      client.stream->Write(chunk);
    }
    EXPECT_TRUE(client.Ask(Propose(id, 1)).has_proposal());
    return draft_engine_.last().features.num_rows();
  };
  EXPECT_EQ(rows_of(2, kMaxParts), kMaxParts);
  EXPECT_EQ(rows_of(3, kMaxParts + 3), 3) << "the last ones";
}

// Returns the memory that this process holds now.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(ServerStreamsTest, PartsWithoutARequestAreBoundedByBytes) {
  constexpr int64_t kMiB = 1 << 20;
  const int64_t before = ResidentBytes();
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    Client& client = clients.emplace_back(OpenWithHello());
    v1::DraftRequest chunk;
    chunk.mutable_features()->set_data(std::string(4 * kMiB, 'x'));
    chunk.set_request_id(2);
    for (int part = 0; part < 50; ++part) client.stream->Write(chunk);
    // When this is answered the parts have come.
    EXPECT_TRUE(client.Ask(Propose(3, 1 + i)).has_proposal());
    for (int part = 0; part < 50; ++part) client.stream->Write(chunk);
    v1::DraftRequest end;
    *end.mutable_end_sequence() = ToProto(SequenceId{9, 7});
    client.stream->Write(end);
    ExpectFailure(client.Ask(v1::DraftRequest()), 0,
                  absl::StatusCode::kInvalidArgument);
    EXPECT_LT(ResidentBytes() - before, 450 * kMiB) << i;
  }
  // They count no more once they are dropped.
  clients.clear();
  Client client = OpenWithHello();
  v1::DraftRequest chunk;
  chunk.mutable_features()->set_num_rows(1);
  chunk.mutable_features()->set_type(v1::FEATURE_TYPE_BF16);
  chunk.mutable_features()->set_data("wx");
  chunk.set_request_id(2);
  EXPECT_TRUE(client.stream->Write(chunk));
  EXPECT_TRUE(client.Ask(Propose(2, 9)).has_proposal());
  EXPECT_EQ(draft_engine_.last().features.num_rows(), 1);
}

// A peer that asks for features and does not read them.
TEST_F(ServerStreamsTest, AnswersThatNobodyReadsAreBoundedByBytes) {
  constexpr int kRequests = 24;
  constexpr int64_t kTokens = 8192;  // with 8 taps of 64 numbers: 8 MiB
  verify_engine_.Hold();
  auto stub = v1::Verifier::NewStub(NewPeerChannel(server_.address()));
  grpc::ClientContext context;
  auto stream = stub->Verify(&context);
  v1::VerifyRequest hello;
  hello.set_request_id(1);
  *hello.mutable_hello() = MakeCoordinatorHello(TestModel(), 9);
  v1::VerifyResponse response;
  ASSERT_TRUE(stream->Write(hello));
  ASSERT_TRUE(stream->Read(&response));
  for (uint64_t i = 0; i < kRequests; ++i) {
    VerifyRequest ask = {.update = TestUpdate(i), .rule = "walk"};
    ask.update.new_tokens.assign(kTokens, 1);
    ask.tree = TokenTree::RootOnly(1);
    ask.features = {.taps = {1, 2, 3, 4, 5, 6, 7, 8}};
    v1::VerifyRequest message;
    message.set_request_id(i + 2);
    *message.mutable_verify() = ToProto(ask, absl::Seconds(60));
    ASSERT_TRUE(stream->Write(message));
  }
  ASSERT_TRUE(verify_engine_.AwaitHeld(kRequests));
  verify_engine_.Release();  // all answers come while nobody reads

  int whole = 0, refused = 0;
  while (whole + refused < kRequests && stream->Read(&response)) {
    if (response.has_verify_result()) ++whole;
    if (!response.has_failure()) continue;
    ++refused;
    EXPECT_EQ(response.failure().code(),
              static_cast<int>(absl::StatusCode::kUnavailable));
  }
  EXPECT_EQ(whole + refused, kRequests);
  EXPECT_GE(whole, 8);     // 64 MiB
  EXPECT_GE(refused, 10);  // beside what the wire had taken
  context.TryCancel();
  (void)stream->Finish();
}

TEST_F(ServerStreamsTest, BudgetIsCutToWhatTheDrafterPromised) {
  Client client = OpenWithHello();
  v1::DraftRequest request = Propose(2, 1);
  request.mutable_propose()->set_max_nodes(~uint32_t{0});
  request.mutable_propose()->set_max_depth(~uint32_t{0});
  EXPECT_EQ(client.Ask(request).proposal().tree().token_size(), 2049);
  EXPECT_EQ(draft_engine_.last().budget.max_depth, 64);
}

TEST_F(ServerStreamsTest, UnknownFieldsBreakOnlyTheirStream) {
  Client client = OpenWithHello();
  grpc::ClientContext context;
  auto other = stub_->Draft(&context);
  v1::DraftRequest unknown;
  unknown.GetReflection()->MutableUnknownFields(&unknown)->AddVarint(99, 1);
  other->Write(unknown);
  EXPECT_FALSE(other->Finish().ok());
  EXPECT_TRUE(client.Ask(Propose(2, 1)).has_proposal());
}

TEST_F(ServerStreamsTest, ASequenceBelongsToTheStreamThatBeganIt) {
  std::optional<Client> owner = OpenWithHello();
  EXPECT_TRUE(owner->Ask(Propose(2, 1)).has_proposal());
  Client stranger = OpenWithHello();  // it has learned the epoch
  ExpectFailure(stranger.Ask(Propose(2, 1)), 2,
                absl::StatusCode::kPermissionDenied);
  v1::DraftRequest end;
  *end.mutable_end_sequence() = ToProto(SequenceId{9, 1});
  EXPECT_TRUE(stranger.stream->Write(end));
  EXPECT_TRUE(stranger.Ask(Propose(3, 2)).has_proposal());
  EXPECT_TRUE(draft_engine_.ended().empty());
  EXPECT_TRUE(owner->Ask(Propose(3, 1)).has_proposal());
  owner.reset();
  ASSERT_TRUE(draft_engine_.AwaitEnded(1));
  EXPECT_EQ(draft_engine_.ended(), (std::vector<SequenceId>{{9, 1}}));
}

TEST_F(ServerStreamsTest, ARefusedRequestDoesNotKeepItsSequence) {
  Client refused = OpenWithHello();
  v1::DraftRequest malformed = Propose(2, 7);
  malformed.mutable_propose()->mutable_update()->mutable_key()->set_round(0);
  malformed.mutable_propose()->mutable_update()->add_new_tokens(1u << 31);
  ASSERT_TRUE(refused.Ask(malformed).has_failure());
  Client other = OpenWithHello();
  EXPECT_FALSE(other.Ask(Propose(2, 7)).has_failure());
}

TEST_F(ServerStreamsTest, ASequenceOfAnotherStreamCannotBeEnded) {
  Client owner = OpenWithHello();
  EXPECT_TRUE(owner.Ask(Propose(2, 1)).has_proposal());
  Client stranger = OpenWithHello(8);
  v1::DraftRequest request;
  *request.mutable_end_sequence() = ToProto(SequenceId{9, 1});
  EXPECT_TRUE(stranger.stream->Write(request));
  ExpectFailure(stranger.Ask(Propose(2, 1)), 2,
                absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(draft_engine_.ended().empty());
}

TEST_F(ServerStreamsTest, ManyRequestsInFlightAreAllAnswered) {
  constexpr uint64_t kRequests = 3000;  // more than one stream may have open
  Client client = OpenWithHello();
  draft_engine_.Hold();
  std::thread writer([&] {
    for (uint64_t id = 2; id < 2 + kRequests; ++id) {
      EXPECT_TRUE(client.stream->Write(Propose(id, id)));
    }
  });
  EXPECT_TRUE(draft_engine_.AwaitHeld(1023));
  draft_engine_.Release();
  v1::DraftResponse response;
  for (uint64_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(client.stream->Read(&response));
    EXPECT_TRUE(response.has_proposal());
  }
  writer.join();
}

TEST_F(ServerStreamsTest, HalfCloseEndsTheStreamAndItsSequences) {
  Client client = OpenWithHello();
  EXPECT_TRUE(client.Ask(Propose(2, 1)).has_proposal());
  client.stream->WritesDone();
  v1::DraftResponse response;
  EXPECT_FALSE(client.stream->Read(&response));
  EXPECT_TRUE(client.stream->Finish().ok());
  client.stream.reset();
  // The engine knows before the client does.
  EXPECT_EQ(draft_engine_.ended(), (std::vector<SequenceId>{{9, 1}}));
}

// An engine whose faults must not reach gRPC.
class BrokenEngine final : public DraftEndpoint {
 public:
  void Propose(ProposeRequest request, absl::Time, OnPartial,
               Done<Proposal>) override {
    if (request.update.sequence.number == 1) throw std::runtime_error("bug");
    // Never answers.
  }
  void EndSequence(SequenceId) override {}
};

TEST_F(ServerStreamsTest, ExceptionsAndForgottenAnswersBecomeInternal) {
  BrokenEngine engine;
  const auto service = NewDrafterService(engine, TestDrafterInfo());
  const auto runner = Serve(*service);
  ASSERT_TRUE(runner.ok()) << runner.status();
  Client client = OpenWithHello();
  ExpectFailure(client.Ask(Propose(2, 1)), 2, absl::StatusCode::kInternal);
  ExpectFailure(client.Ask(Propose(3, 2)), 3, absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace espalier
