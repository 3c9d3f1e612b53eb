#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/notification.h"
#include "common/rpc/remote_draft_endpoint.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "common/spec/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"
#include "tests/common/rpc/server_fixture.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// The answer of one call, to wait for.
template <typename T>
class Future {
 public:
  Done<T> done() {
    return [state = state_](absl::StatusOr<T> result) {
      state->result = std::move(result);
      state->ready.Notify();
    };
  }
  bool ready() const { return state_->ready.HasBeenNotified(); }
  absl::StatusOr<T> Get() const {
    if (!state_->ready.WaitUntil(Generous())) {
      return absl::DeadlineExceededError("the test waited in vain");
    }
    return state_->result;
  }

 private:
  struct State {
    Notification ready;
    absl::StatusOr<T> result;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class RemoteEndpointTest : public testing::TestWithParam<const char*> {
 protected:
  // "unix" or a TCP host.
  std::string Address() const {
    return std::string(GetParam()) == "unix" ? SocketAddress() : GetParam();
  }

  void StartServer() { StartServer({.address = Address()}); }
  void StartServer(const TestServer::Options& options) {
    server_.emplace(draft_engine_, verify_engine_, options);
    address_ = server_->address();
  }

  PeerOptions Options() {
    return {.name = "peer",
            .address = address_,
            .model = TestModel(),
            .epoch = 9,
            .registry = registry_,
            .min_backoff = absl::Milliseconds(5),
            .max_backoff = absl::Milliseconds(50),
            .refused_backoff = absl::Milliseconds(50)};
  }

  std::unique_ptr<RemoteDraftEndpoint> ConnectDrafter() {
    auto endpoint = std::make_unique<RemoteDraftEndpoint>(Options());
    EXPECT_TRUE(endpoint->AwaitState(PeerState::kReady, Generous()));
    return endpoint;
  }
  std::unique_ptr<RemoteVerifyEndpoint> ConnectVerifier() {
    auto endpoint = std::make_unique<RemoteVerifyEndpoint>(Options());
    EXPECT_TRUE(endpoint->AwaitState(PeerState::kReady, Generous()));
    return endpoint;
  }

  static Future<Proposal> Propose(DraftEndpoint& endpoint, uint64_t sequence,
                                  int64_t max_nodes = 3) {
    Future<Proposal> future;
    endpoint.Propose({.update = TestUpdate(sequence),
                      .budget = {.max_nodes = max_nodes, .max_depth = 8}},
                     Generous(), nullptr, future.done());
    return future;
  }

  // What a peer that is expected to be refused says.
  std::string RefusalOf(const DrafterInfo& info) {
    StartServer({.address = Address(), .drafter = info});
    RemoteDraftEndpoint endpoint(Options());
    EXPECT_TRUE(endpoint.AwaitState(PeerState::kRefused, Generous()));
    EXPECT_EQ(Propose(endpoint, 1).Get().status().code(),
              absl::StatusCode::kUnavailable);
    return endpoint.status().reason;
  }

  FakeDraftEngine draft_engine_;
  FakeVerifyEngine verify_engine_;
  prometheus::Registry registry_;
  std::optional<TestServer> server_;
  std::string address_;
};

INSTANTIATE_TEST_SUITE_P(Transports, RemoteEndpointTest,
                         testing::Values("unix", "127.0.0.1:0"),
                         [](const auto& test) {
                           return test.index == 0 ? "Unix" : "Tcp";
                         });

TEST_P(RemoteEndpointTest, ProposalComesBack) {
  StartServer();
  auto endpoint = ConnectDrafter();
  EXPECT_EQ(endpoint->info()->name, "lookup");
  auto proposal = Propose(*endpoint, 7).Get();
  ASSERT_TRUE(proposal.ok()) << proposal.status();
  EXPECT_EQ(proposal->round, 5);
  EXPECT_EQ(proposal->committed_length, 3);
  EXPECT_EQ(proposal->compute_time, absl::Microseconds(42));
  EXPECT_EQ(proposal->tree.tokens, (std::vector<TokenId>{3, 7, 7, 7}));
  EXPECT_EQ(draft_engine_.last().update.new_tokens, TestUpdate(7).new_tokens);
  EXPECT_EQ(draft_engine_.last().update.sampling, TestUpdate(7).sampling);
  EXPECT_LE(draft_engine_.last_deadline(), Generous());
}

TEST_P(RemoteEndpointTest, VerdictComesBack) {
  StartServer();
  auto endpoint = ConnectVerifier();
  EXPECT_EQ(endpoint->info()->epoch, 77);
  EXPECT_EQ(endpoint->info()->rules, TestVerifierInfo().rules);
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 20, -1.0f);
  Future<Verdict> future;
  endpoint->Verify({.update = TestUpdate(8), .tree = tree, .rule = "walk"},
                   absl::InfiniteFuture(), future.done());
  auto verdict = future.Get();
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->path, std::vector<int32_t>{1});
  EXPECT_EQ(verdict->tokens, (std::vector<TokenId>{20, 8}));
  EXPECT_EQ(verdict->rule, "walk");
  EXPECT_EQ(verdict->timings.total(), absl::Microseconds(15));
  EXPECT_EQ(verify_engine_.last_deadline(), absl::InfiniteFuture());
}

TEST_P(RemoteEndpointTest, ConcurrentSequencesGetTheirOwnAnswers) {
  StartServer();
  auto endpoint = ConnectDrafter();
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  std::latch answered(kThreads * kEach);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const auto sequence = static_cast<uint64_t>(t * kEach + i);
        endpoint->Propose(
            {.update = TestUpdate(sequence), .budget = {.max_nodes = 2}},
            Generous(), nullptr,
            [&, sequence](absl::StatusOr<Proposal> proposal) {
              if (proposal.ok() && proposal->tree.tokens.back() ==
                                       static_cast<TokenId>(sequence)) {
                ++right;
              }
              answered.count_down();
            });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  answered.wait();
  EXPECT_EQ(right, kThreads * kEach);
}

TEST_P(RemoteEndpointTest, PartsOfATreeComeAheadOfTheAnswer) {
  draft_engine_.TellBefore({1, 2});
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.Hold();
  std::vector<Proposal> parts;
  Notification second;
  Future<Proposal> answer;
  endpoint->Propose(
      {.update = TestUpdate(7), .budget = {.max_nodes = 3, .max_depth = 8}},
      Generous(),
      [&](Proposal part) {
        parts.push_back(std::move(part));
        if (parts.size() == 2) second.Notify();
      },
      answer.done());
  ASSERT_TRUE(second.WaitUntil(Generous()));
  EXPECT_FALSE(answer.ready());
  EXPECT_EQ(parts[0].round, 5);
  EXPECT_EQ(parts[0].committed_length, 3);
  EXPECT_EQ(parts[0].tree.tokens, (std::vector<TokenId>{3, 7}));
  EXPECT_EQ(parts[1].tree.tokens, (std::vector<TokenId>{3, 7, 7}));
  draft_engine_.Release();
  ASSERT_TRUE(answer.Get().ok());
  EXPECT_EQ(answer.Get()->tree.tokens, (std::vector<TokenId>{3, 7, 7, 7}));
  EXPECT_EQ(parts.size(), 2u);
}

TEST_P(RemoteEndpointTest, PartsGoNowhereIfNobodyListens) {
  draft_engine_.TellBefore({1, 2});
  StartServer();
  auto endpoint = ConnectDrafter();
  ASSERT_TRUE(Propose(*endpoint, 7).Get().ok());
  EXPECT_EQ(Propose(*endpoint, 7).Get()->tree.num_nodes(), 4);
}

TEST_P(RemoteEndpointTest, ALostStreamAnswersAfterItsParts) {
  draft_engine_.TellBefore({2});
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.Hold();
  Notification part;
  Future<Proposal> answer;
  endpoint->Propose(
      {.update = TestUpdate(7), .budget = {.max_nodes = 3}}, Generous(),
      [&](Proposal) { part.Notify(); }, answer.done());
  ASSERT_TRUE(part.WaitUntil(Generous()));
  endpoint.reset();
  EXPECT_EQ(answer.Get().status().code(), absl::StatusCode::kUnavailable);
  draft_engine_.Release();
}

// Says what no drafter of ours would.
class RawDrafter final : public v1::Drafter::CallbackService {
 public:
  using Stream = grpc::ServerBidiReactor<v1::DraftRequest, v1::DraftResponse>;
  // The answers to one request.
  std::vector<v1::DraftResponse> answers;

  Stream* Draft(grpc::CallbackServerContext*) override {
    return new Reactor(this);
  }

 private:
  class Reactor final : public Stream {
   public:
    explicit Reactor(RawDrafter* drafter) : left_(drafter->answers) {
      StartRead(&request_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) {
        Finish(grpc::Status::OK);
        return;
      }
      if (request_.has_hello()) {
        *left_.emplace(left_.begin())->mutable_hello() =
            ToProto(TestDrafterInfo());
      }
      Write();
    }
    void OnWriteDone(bool) override {
      const bool more = left_.front().proposal().partial();
      left_.erase(left_.begin());
      if (more) {
        Write();
      } else {
        StartRead(&request_);
      }
    }
    void OnDone() override { delete this; }

   private:
    void Write() {
      left_.front().set_request_id(request_.request_id());
      StartWrite(&left_.front());
    }
    std::vector<v1::DraftResponse> left_;
    v1::DraftRequest request_;
  };
};

v1::DraftResponse RawProposal(bool partial) {
  v1::DraftResponse response;
  *response.mutable_proposal() = ToProto({.tree = TokenTree::RootOnly(3)});
  response.mutable_proposal()->set_partial(partial);
  return response;
}

class RawDrafterTest : public RemoteEndpointTest {
 protected:
  // What comes of `answers` to one request.
  struct Outcome {
    int num_parts = 0;
    absl::Status status;
  };
  Outcome Ask(std::vector<v1::DraftResponse> answers) {
    RawDrafter drafter;
    drafter.answers = std::move(answers);
    v1::ServerConfig config;
    config.add_listen(Address());
    auto runner = ServerRunner::Start(
        {.config = config,
         .services = {{"espalier.v1.Drafter", &drafter}},
         .registry = std::make_shared<prometheus::Registry>()});
    EXPECT_TRUE(runner.ok()) << runner.status();
    address_ = (*runner)->addresses()[0];
    auto endpoint = ConnectDrafter();
    Outcome outcome;
    Future<Proposal> answer;
    endpoint->Propose(
        {.update = TestUpdate(7)}, Generous(),
        [&](Proposal) { ++outcome.num_parts; }, answer.done());
    outcome.status = answer.Get().status();
    endpoint.reset();
    return outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, RawDrafterTest, testing::Values("unix"));

TEST_P(RawDrafterTest, AnAnswerWithAnUnreadablePartIsMalformed) {
  const v1::DraftResponse part = RawProposal(/*partial=*/true);
  v1::DraftResponse bad = part;
  bad.mutable_proposal()->mutable_tree()->clear_parent();
  const Outcome outcome = Ask({part, bad, part, RawProposal(false)});
  EXPECT_EQ(outcome.num_parts, 1);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(outcome.status.message(), HasSubstr("malformed"));
}

TEST_P(RawDrafterTest, AnAnswerInTooManyPartsIsMalformed) {
  std::vector<v1::DraftResponse> answers(256, RawProposal(/*partial=*/true));
  answers.push_back(RawProposal(false));
  EXPECT_TRUE(Ask(answers).status.ok());
  answers.insert(answers.begin(), 100, RawProposal(true));
  const Outcome outcome = Ask(answers);
  EXPECT_EQ(outcome.num_parts, 256);
  EXPECT_THAT(outcome.status.message(), HasSubstr("more than 256 parts"));
}

TEST_P(RemoteEndpointTest, AnswersMayComeInAnyOrder) {
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.Hold();
  auto slow = Propose(*endpoint, 1);
  ASSERT_TRUE(draft_engine_.AwaitHeld(1));
  auto verifier = ConnectVerifier();
  Future<Verdict> other;
  verifier->Verify({.update = TestUpdate(2), .tree = TokenTree::RootOnly(3)},
                   Generous(), other.done());
  EXPECT_TRUE(other.Get().ok());
  EXPECT_FALSE(slow.ready());
  draft_engine_.Release();
  EXPECT_TRUE(slow.Get().ok());
}

TEST_P(RemoteEndpointTest, BigMessagesPass) {
  StartServer();
  auto endpoint = ConnectDrafter();
  ProposeRequest request{.update = TestUpdate(4),
                         .budget = {.max_nodes = 1024, .max_depth = 1024}};
  request.update.new_tokens.assign(100'000, 5);
  Future<Proposal> future;
  endpoint->Propose(request, Generous(), nullptr, future.done());
  auto proposal = future.Get();
  ASSERT_TRUE(proposal.ok()) << proposal.status();
  EXPECT_EQ(proposal->tree.num_nodes(), 1025);
  EXPECT_EQ(proposal->committed_length, 100'000);

  auto verifier = ConnectVerifier();
  Future<Verdict> verdict;
  verifier->Verify({.update = request.update, .tree = proposal->tree},
                   Generous(), verdict.done());
  ASSERT_TRUE(verdict.Get().ok()) << verdict.Get().status();
  EXPECT_EQ(verdict.Get()->path.size(), 1024);
}

TEST_P(RemoteEndpointTest, ErrorsOfTheEngineComeThrough) {
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.FailWith(StaleBaseError(12, 40));
  EXPECT_EQ(HeldLength(Propose(*endpoint, 1).Get().status()), 12);
  draft_engine_.FailWith(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(Propose(*endpoint, 1).Get().status(),
            absl::ResourceExhaustedError("full"));
  draft_engine_.FailWith(absl::OkStatus());
  EXPECT_TRUE(Propose(*endpoint, 1).Get().ok());
}

TEST_P(RemoteEndpointTest, TokensOutsideOfTheVocabularyAreRefused) {
  StartServer();
  auto endpoint = ConnectVerifier();
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 1000, -1.0f);
  Future<Verdict> bad_tree;
  endpoint->Verify({.update = TestUpdate(1), .tree = tree}, Generous(),
                   bad_tree.done());
  EXPECT_EQ(bad_tree.Get().status().code(), absl::StatusCode::kInvalidArgument);
  SequenceUpdate update = TestUpdate(1);
  update.new_tokens.push_back(1000);
  Future<Verdict> bad_update;
  endpoint->Verify({.update = update, .tree = TokenTree::RootOnly(3)},
                   Generous(), bad_update.done());
  EXPECT_THAT(std::string(bad_update.Get().status().message()),
              HasSubstr("token 1000 at 3"));
}

TEST_P(RemoteEndpointTest, PendingCallsFailAndTheLinkRecovers) {
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

TEST_P(RemoteEndpointTest, ConnectsToAServerThatStartsLater) {
  StartServer();
  server_.reset();
  RemoteDraftEndpoint endpoint(Options());
  EXPECT_EQ(Propose(endpoint, 1).Get().status().code(),
            absl::StatusCode::kUnavailable);
  StartServer({.address = address_});
  ASSERT_TRUE(endpoint.AwaitState(PeerState::kReady, Generous()));
  EXPECT_TRUE(Propose(endpoint, 1).Get().ok());
}

TEST_P(RemoteEndpointTest, OtherVocabularyIsRefused) {
  DrafterInfo info = TestDrafterInfo();
  info.model.vocab_size = 999;
  EXPECT_THAT(RefusalOf(info), HasSubstr("vocabulary of"));
}

TEST_P(RemoteEndpointTest, OtherTokenizerIsRefused) {
  DrafterInfo info = TestDrafterInfo();
  info.model.tokenizer_fingerprint = 0xdef;
  EXPECT_THAT(RefusalOf(info), HasSubstr("fingerprint"));
}

// More than one message takes, and several streams' worth of requests at once.
TEST_P(RemoteEndpointTest, FeaturesComeWithTheirVerdict) {
  StartServer();
  auto endpoint = ConnectVerifier();
  SequenceUpdate update = TestUpdate(1);
  update.new_tokens.assign(20'000, 5);
  Future<Verdict> with, without;
  endpoint->Verify({.update = update,
                    .tree = TokenTree::RootOnly(5),
                    .features = {.taps = {1, 4, 9}, .first_position = 500}},
                   Generous(), with.done());
  endpoint->Verify({.update = TestUpdate(2), .tree = TokenTree::RootOnly(3)},
                   Generous(), without.done());
  ASSERT_TRUE(with.Get().ok()) << with.Get().status();
  EXPECT_TRUE(with.Get()->features == TestFeatures(500, 19'500, 192));
  ASSERT_TRUE(without.Get().ok()) << without.Get().status();
  EXPECT_TRUE(without.Get()->features.empty());
}

TEST_P(RemoteEndpointTest, FeaturesGoToTheDrafterWithTheirRequest) {
  DrafterInfo info = TestDrafterInfo();
  info.features = {.taps = {1, 4, 9}, .hidden_size = 64};
  StartServer({.address = Address(), .drafter = info});
  auto endpoint = ConnectDrafter();
  EXPECT_EQ(endpoint->info()->features, info.features);
  Future<Proposal> proposal, next;
  endpoint->Propose(
      {.update = TestUpdate(1), .features = TestFeatures(40, 20'000, 192)},
      Generous(), nullptr, proposal.done());
  ASSERT_TRUE(proposal.Get().ok()) << proposal.Get().status();
  EXPECT_TRUE(draft_engine_.last().features == TestFeatures(40, 20'000, 192));
  endpoint->Propose({.update = TestUpdate(1)}, Generous(), nullptr,
                    next.done());
  ASSERT_TRUE(next.Get().ok()) << next.Get().status();
  EXPECT_TRUE(draft_engine_.last().features.empty());
}

TEST_P(RemoteEndpointTest, RefusedPeerIsTakenWhenItFitsAgain) {
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

TEST_P(RemoteEndpointTest, SequencesEndWhenToldAndWithTheStream) {
  StartServer();
  auto endpoint = ConnectDrafter();
  for (uint64_t sequence : {1, 2, 3}) {
    ASSERT_TRUE(Propose(*endpoint, sequence).Get().ok());
  }
  endpoint->EndSequence({.coordinator_epoch = 9, .number = 2});
  endpoint->EndSequence({.coordinator_epoch = 9, .number = 2});
  endpoint->EndSequence({.coordinator_epoch = 9, .number = 99});
  ASSERT_TRUE(draft_engine_.AwaitEnded(1));
  EXPECT_EQ(draft_engine_.ended()[0].number, 2);
  endpoint.reset();
  ASSERT_TRUE(draft_engine_.AwaitEnded(3));
  EXPECT_THAT(draft_engine_.ended(),
              UnorderedElementsAre(SequenceId{9, 2}, SequenceId{9, 1},
                                   SequenceId{9, 3}));
}

TEST_P(RemoteEndpointTest, DestructionFailsWhatIsInFlight) {
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

TEST_P(RemoteEndpointTest, DestructionWhileConnectingDoesNotHang) {
  StartServer();
  server_.reset();
  for (int i = 0; i < 20; ++i) {
    RemoteVerifyEndpoint endpoint(Options());
    if (i % 2 == 0) {
      endpoint.EndSequence({.coordinator_epoch = 9, .number = 1});
    }
  }
}

TEST_P(RemoteEndpointTest, APeerThatDoesNotAnswerIsDialledAgain) {
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

TEST_P(RemoteEndpointTest, DrainWaitsForOpenSequencesAndRefusesNewOnes) {
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
  // The stream still works for the open sequence; when draining has begun, a
  // new one is refused.
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

TEST_P(RemoteEndpointTest, ADrafterThatIsNotAcceptedIsRefusedWithTheReason) {
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

TEST_P(RemoteEndpointTest, WhatCannotBeAcceptedYetIsAskedAgain) {
  StartServer({.address = Address()});
  std::atomic<int> asked{0};
  RemoteDraftEndpoint endpoint(Options(), [&asked](const DrafterInfo&) {
    return ++asked < 3 ? absl::UnavailableError("wait") : absl::OkStatus();
  });
  ASSERT_TRUE(endpoint.AwaitState(PeerState::kReady, Generous()));
  EXPECT_EQ(asked, 3);
}

TEST_P(RemoteEndpointTest, ADrafterThatIsNoVerifierIsRefused) {
  DrafterInfo info = TestDrafterInfo();
  drafter::DrafterService service(draft_engine_, info);
  v1::ServerConfig config;
  config.add_listen(Address());
  auto runner = ServerRunner::Start(
      {.config = config,
       .services = {{"espalier.v1.Drafter", &service}},
       .registry = std::make_shared<prometheus::Registry>()});
  ASSERT_TRUE(runner.ok()) << runner.status();
  address_ = (*runner)->addresses()[0];
  RemoteVerifyEndpoint endpoint(Options());
  EXPECT_TRUE(endpoint.AwaitState(PeerState::kRefused, Generous()));
  EXPECT_NE(endpoint.status().reason, "");
}

}  // namespace
}  // namespace espalier
