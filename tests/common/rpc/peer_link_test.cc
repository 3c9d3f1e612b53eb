// Links to peers that do not exist, do not fit, or go away.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "common/rpc/convert.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server_builder.h"
#include "tests/common/rpc/remote_endpoint_fixture.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

class PeerLinkTest : public RemoteEndpointTest {};

INSTANTIATE_TEST_SUITE_P(Transports, PeerLinkTest,
                         testing::Values("unix", "127.0.0.1:0"),
                         [](const auto& test) {
                           return test.index == 0 ? "Unix" : "Tcp";
                         });

TEST_P(PeerLinkTest, PendingCallsFailAndTheLinkRecovers) {
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.Hold();
  auto lost = Propose(*endpoint, 1);
  ASSERT_TRUE(draft_engine_.AwaitHeld(1));
  server_.reset();
  EXPECT_EQ(lost.Get().status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(endpoint->AwaitState(PeerState::kConnecting, Generous()));
  EXPECT_EQ(Propose(*endpoint, 1).Get().status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(draft_engine_.AwaitEnded(1));
  draft_engine_.Release();  // an answer to a stream that is gone

  StartServer({.address = address_});
  ASSERT_TRUE(endpoint->AwaitState(PeerState::kReady, Generous()));
  EXPECT_TRUE(Propose(*endpoint, 1).Get().ok());
  double reconnects = 0;
  for (const auto& family : registry_.Collect()) {
    if (family.name == "espalier_stream_reconnects_total") {
      reconnects = family.metric[0].counter.value;
    }
  }
  EXPECT_EQ(reconnects, 1);
}

TEST_P(PeerLinkTest, ConnectsToAServerThatStartsLater) {
  StartServer();
  server_.reset();
  RemoteDraftEndpoint endpoint(Options());
  EXPECT_EQ(Propose(endpoint, 1).Get().status().code(),
            absl::StatusCode::kUnavailable);
  StartServer({.address = address_});
  ASSERT_TRUE(endpoint.AwaitState(PeerState::kReady, Generous()));
  EXPECT_TRUE(Propose(endpoint, 1).Get().ok());
}

TEST_P(PeerLinkTest, OtherVocabularyIsRefused) {
  DrafterInfo info = TestDrafterInfo();
  info.model.vocab_size = 999;
  EXPECT_THAT(RefusalOf(info), HasSubstr("vocabulary of"));
}

TEST_P(PeerLinkTest, OtherTokenizerIsRefused) {
  DrafterInfo info = TestDrafterInfo();
  info.model.tokenizer_fingerprint = 0xdef;
  EXPECT_THAT(RefusalOf(info), HasSubstr("fingerprint"));
}

TEST_P(PeerLinkTest, RefusedPeerIsTakenWhenItFitsAgain) {
  DrafterInfo info = TestDrafterInfo();
  info.model.vocab_size = 999;
  StartServer({.address = Address(), .drafter = info});
  RemoteDraftEndpoint endpoint(Options());
  ASSERT_TRUE(endpoint.AwaitState(PeerState::kRefused, Generous()));
  server_.reset();
  StartServer({.address = address_});
  ASSERT_TRUE(endpoint.AwaitState(PeerState::kReady, Generous()));
  EXPECT_EQ(endpoint.status().reason, "");
}

TEST_P(PeerLinkTest, DestructionFailsWhatIsInFlight) {
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.Hold();
  std::vector<Future<Proposal>> futures;
  for (uint64_t i = 0; i < 20; ++i) futures.push_back(Propose(*endpoint, i));
  ASSERT_TRUE(draft_engine_.AwaitHeld(20));
  endpoint.reset();
  for (const auto& future : futures) {
    ASSERT_TRUE(future.ready());
    EXPECT_EQ(future.Get().status().code(), absl::StatusCode::kUnavailable);
  }
  draft_engine_.Release();
}

TEST_P(PeerLinkTest, DestructionWhileConnectingDoesNotHang) {
  StartServer();
  server_.reset();
  for (int i = 0; i < 20; ++i) {
    RemoteVerifyEndpoint endpoint(Options());
    if (i % 2 == 0) {
      endpoint.EndSequence({.coordinator_epoch = 9, .number = 1});
    }
  }
}

TEST_P(PeerLinkTest, APeerThatDoesNotAnswerIsDialledAgain) {
  const std::string path = SocketAddress().substr(5);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name = {.sun_family = AF_UNIX};
  std::memcpy(name.sun_path, path.c_str(), path.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(listen(fd, 8), 0);
  address_ = "unix:" + path;
  PeerOptions options = Options();
  options.hello_timeout = absl::Milliseconds(20);
  RemoteDraftEndpoint endpoint(options);
  const int first = accept(fd, nullptr, nullptr);
  const int second = accept(fd, nullptr, nullptr);
  EXPECT_EQ(endpoint.status().state, PeerState::kConnecting);
  EXPECT_EQ(endpoint.status().reason, "it does not answer");
  for (int open : {first, second, fd}) close(open);
  unlink(path.c_str());
}

TEST_P(PeerLinkTest, DrainWaitsForOpenSequencesAndRefusesNewOnes) {
  StartServer();
  auto endpoint = ConnectDrafter();
  ASSERT_TRUE(Propose(*endpoint, 1).Get().ok());
  draft_engine_.Hold();
  auto running = Propose(*endpoint, 1);
  ASSERT_TRUE(draft_engine_.AwaitHeld(1));
  Notification drained;
  std::thread drain([&] {
    server_->runner().DrainAndStop();
    drained.Notify();
  });
  // The stream still works for the open sequence. Once draining has begun, a
  // new sequence is refused.
  draft_engine_.Release();
  EXPECT_TRUE(running.Get().ok());
  while (Propose(*endpoint, 50).Get().ok()) {
    endpoint->EndSequence({.coordinator_epoch = 9, .number = 50});
  }
  EXPECT_FALSE(drained.HasBeenNotified());
  EXPECT_TRUE(Propose(*endpoint, 1).Get().ok());
  endpoint->EndSequence({.coordinator_epoch = 9, .number = 1});
  EXPECT_TRUE(drained.WaitUntil(Generous()));
  drain.join();
  EXPECT_TRUE(endpoint->AwaitState(PeerState::kConnecting, Generous()));
}

TEST_P(PeerLinkTest, ADrafterThatIsNotAcceptedIsRefusedWithTheReason) {
  StartServer({.address = Address()});
  RemoteDraftEndpoint endpoint(Options(), [](const DrafterInfo& info) {
    return absl::FailedPreconditionError(
        absl::StrCat("no room for ", info.name));
  });
  ASSERT_TRUE(endpoint.AwaitState(PeerState::kRefused, Generous()));
  EXPECT_EQ(endpoint.status().reason,
            absl::StrCat("no room for ", TestDrafterInfo().name));
  EXPECT_TRUE(absl::IsUnavailable(Propose(endpoint, 1).Get().status()));
}

TEST_P(PeerLinkTest, WhatCannotBeAcceptedYetIsAskedAgain) {
  StartServer({.address = Address()});
  std::atomic<int> asked{0};
  RemoteDraftEndpoint endpoint(Options(), [&asked](const DrafterInfo&) {
    return ++asked < 3 ? absl::UnavailableError("wait") : absl::OkStatus();
  });
  ASSERT_TRUE(endpoint.AwaitState(PeerState::kReady, Generous()));
  EXPECT_EQ(asked, 3);
}

TEST_P(PeerLinkTest, ADrafterThatIsNoVerifierIsRefused) {
  DrafterInfo info = TestDrafterInfo();
  const auto service = NewDrafterService(draft_engine_, info);
  v1::ServerConfig config;
  config.add_listen(Address());
  auto runner = ServerRunner::Start(
      {.config = config,
       .services = {{"espalier.v1.Drafter", service->calls()}},
       .registry = std::make_shared<prometheus::Registry>()});
  ASSERT_TRUE(runner.ok()) << runner.status();
  address_ = (*runner)->addresses()[0];
  RemoteVerifyEndpoint endpoint(Options());
  EXPECT_TRUE(endpoint.AwaitState(PeerState::kRefused, Generous()));
  EXPECT_NE(endpoint.status().reason, "");
}

TEST_P(PeerLinkTest, EveryStreamHasAnEpochOfItsOwn) {
  StartServer();
  auto drafter = ConnectDrafter();
  auto other = ConnectDrafter();
  const auto epoch = [this](DraftEndpoint& endpoint) {
    EXPECT_TRUE(Propose(endpoint, 1).Get().ok());
    return draft_engine_.last().update.sequence.coordinator_epoch;
  };
  const uint64_t first = epoch(*drafter);
  EXPECT_EQ(epoch(*drafter), first);
  EXPECT_NE(epoch(*other), first);
  other.reset();
  server_.reset();
  ASSERT_TRUE(drafter->AwaitState(PeerState::kConnecting, Generous()));
  StartServer({.address = address_});
  ASSERT_TRUE(drafter->AwaitState(PeerState::kReady, Generous()));
  EXPECT_NE(epoch(*drafter), first);
}

TEST_P(PeerLinkTest, TheEndOfASequenceAnswersWhatIsUnanswered) {
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.Hold();
  auto ended = Propose(*endpoint, 1);
  auto other = Propose(*endpoint, 2);
  ASSERT_TRUE(draft_engine_.AwaitHeld(2));
  endpoint->EndSequence({.number = 1});
  ASSERT_TRUE(ended.ready());
  EXPECT_TRUE(absl::IsCancelled(ended.Get().status()));
  EXPECT_FALSE(other.ready());
  draft_engine_.Release();
  EXPECT_TRUE(other.Get().ok());
}

// Answers the hello, then everything else with bytes that are not a message.
class GarbledDrafter final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    return new Reactor();
  }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() { StartRead(&request_); }
    void OnReadDone(bool ok) override {
      if (!ok) {
        Finish(grpc::Status::OK);
        return;
      }
      v1::DraftResponse hello;
      *hello.mutable_hello() = ToProto(TestDrafterInfo());
      const std::string text =
          greeted_ ? std::string("\xff\xff\xff") : hello.SerializeAsString();
      greeted_ = true;
      const grpc::Slice slice(text);
      response_ = grpc::ByteBuffer(&slice, 1);
      StartWrite(&response_);
    }
    void OnWriteDone(bool ok) override {
      if (ok) StartRead(&request_);
    }
    void OnDone() override { delete this; }

   private:
    bool greeted_ = false;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
  };
};

TEST_P(PeerLinkTest, AMessageThatCannotBeDecodedEndsTheStream) {
  GarbledDrafter garbled;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterCallbackGenericService(&garbled);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
  auto endpoint = ConnectDrafter();
  EXPECT_EQ(Propose(*endpoint, 1).Get().status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(endpoint->AwaitState(PeerState::kReady, Generous()));
  endpoint.reset();
  server->Shutdown();
}

}  // namespace
}  // namespace espalier
