// Requests to a peer, and their answers.
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "common/speculation/stale_base.h"
#include "gmock/gmock.h"
#include "tests/common/rpc/remote_endpoint_fixture.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

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

TEST_P(RemoteEndpointTest, VerifyResultComesBack) {
  StartServer();
  auto endpoint = ConnectVerifier();
  EXPECT_EQ(endpoint->info()->epoch, 77);
  EXPECT_EQ(endpoint->info()->rules, TestVerifierInfo().rules);
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 20, -1.0f);
  Future<VerifyResult> future;
  endpoint->Verify({.update = TestUpdate(8), .tree = tree, .rule = "walk"},
                   absl::InfiniteFuture(), future.done());
  auto verify_result = future.Get();
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  EXPECT_EQ(verify_result->path, std::vector<int32_t>{1});
  EXPECT_EQ(verify_result->tokens, (std::vector<TokenId>{20, 8}));
  EXPECT_EQ(verify_result->rule, "walk");
  EXPECT_EQ(verify_result->timings.total(), absl::Microseconds(15));
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

TEST_P(RemoteEndpointTest, AnswersMayComeInAnyOrder) {
  StartServer();
  auto endpoint = ConnectDrafter();
  draft_engine_.Hold();
  auto slow = Propose(*endpoint, 1);
  ASSERT_TRUE(draft_engine_.AwaitHeld(1));
  auto verifier = ConnectVerifier();
  Future<VerifyResult> other;
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
  Future<VerifyResult> verify_result;
  verifier->Verify({.update = request.update, .tree = proposal->tree},
                   Generous(), verify_result.done());
  ASSERT_TRUE(verify_result.Get().ok()) << verify_result.Get().status();
  EXPECT_EQ(verify_result.Get()->path.size(), 1024);
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
  Future<VerifyResult> bad_tree;
  endpoint->Verify({.update = TestUpdate(1), .tree = tree}, Generous(),
                   bad_tree.done());
  EXPECT_EQ(bad_tree.Get().status().code(), absl::StatusCode::kInvalidArgument);
  SequenceUpdate update = TestUpdate(1);
  update.new_tokens.push_back(1000);
  Future<VerifyResult> bad_update;
  endpoint->Verify({.update = update, .tree = TokenTree::RootOnly(3)},
                   Generous(), bad_update.done());
  EXPECT_THAT(std::string(bad_update.Get().status().message()),
              HasSubstr("token 1000 at index 3"));
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
  // The sequence carries the epoch of the stream.
  const uint64_t epoch = draft_engine_.last().update.sequence.coordinator_epoch;
  EXPECT_THAT(draft_engine_.ended(),
              UnorderedElementsAre(SequenceId{epoch, 2}, SequenceId{epoch, 1},
                                   SequenceId{epoch, 3}));
}

}  // namespace
}  // namespace espalier
