// Answers that arrive in parts: partial trees and features.
#include <vector>

#include "common/rpc/convert.h"
#include "espalier/v1/drafter.grpc.pb.h"
#include "gmock/gmock.h"
#include "tests/common/rpc/remote_endpoint_fixture.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

class PartialTreesTest : public RemoteEndpointTest {};

INSTANTIATE_TEST_SUITE_P(Transports, PartialTreesTest,
                         testing::Values("unix", "127.0.0.1:0"),
                         [](const auto& test) {
                           return test.index == 0 ? "Unix" : "Tcp";
                         });

TEST_P(PartialTreesTest, PartsOfATreeComeAheadOfTheAnswer) {
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

TEST_P(PartialTreesTest, PartsGoNowhereIfNobodyListens) {
  draft_engine_.TellBefore({1, 2});
  StartServer();
  auto endpoint = ConnectDrafter();
  ASSERT_TRUE(Propose(*endpoint, 7).Get().ok());
  EXPECT_EQ(Propose(*endpoint, 7).Get()->tree.num_nodes(), 4);
}

TEST_P(PartialTreesTest, ALostStreamAnswersAfterItsParts) {
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

// Sends responses that our drafters never send.
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
  // What the endpoint makes of `answers` to one request.
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
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDataLoss);
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

// The features need several messages, and another request runs at the same
// time.
TEST_P(PartialTreesTest, FeaturesComeWithTheirVerifyResult) {
  StartServer();
  auto endpoint = ConnectVerifier();
  SequenceUpdate update = TestUpdate(1);
  update.new_tokens.assign(20'000, 5);
  Future<VerifyResult> with, without;
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

}  // namespace
}  // namespace espalier
