#include "coordinator/drafter_link.h"

#include <cmath>
#include <functional>

#include "common/spec/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kVocabSize = 50;
constexpr DraftBudget kBudget = {.max_nodes = 4, .max_depth = 3};

class DrafterLinkTest : public testing::Test {
 protected:
  ProposeRequest Ask(uint64_t round) {
    return link_.Ask(session_, round, kBudget);
  }
  // A good answer to the last request.
  Proposal Good(uint64_t round) const {
    Proposal proposal = {.round = round,
                         .committed_length = session_.length(),
                         .tree = TokenTree::RootOnly(session_.last_token())};
    proposal.tree.Add(0, 1, -1.0f);
    return proposal;
  }

  Session session_{{}, {.prompt = {10, 11, 12}, .max_tokens = 100}};
  DrafterLink link_;
};

TEST_F(DrafterLinkTest, SendsEachTokenOnce) {
  EXPECT_THAT(Ask(1).update.new_tokens, ElementsAre(10, 11, 12));
  EXPECT_EQ(link_.Receive(Good(1), kVocabSize).outcome, DraftOutcome::kUsed);
  session_.Commit({20, 21});
  EXPECT_THAT(Ask(2).update.new_tokens, ElementsAre(20, 21));
}

TEST_F(DrafterLinkTest, CatchesUpInOneUpdateAfterALateAnswer) {
  Ask(1);
  const Proposal late = Good(1);
  session_.Commit({20});
  EXPECT_FALSE(link_.may_ask());
  session_.Commit({21});
  EXPECT_EQ(link_.Receive(late, kVocabSize).round, 1u);
  EXPECT_EQ(link_.TreeOf(3), nullptr);
  EXPECT_THAT(Ask(3).update.new_tokens, ElementsAre(20, 21));
}

TEST_F(DrafterLinkTest, StartsAgainFromTheHeldLength) {
  Ask(1);
  EXPECT_EQ(link_.Receive(Good(1), kVocabSize).outcome, DraftOutcome::kUsed);
  session_.Commit({20});
  Ask(2);
  EXPECT_EQ(link_.Receive(StaleBaseError(1, 3), kVocabSize).outcome,
            DraftOutcome::kStale);
  EXPECT_THAT(Ask(3).update.new_tokens, ElementsAre(11, 12, 20));
}

TEST_F(DrafterLinkTest, SendsAnUpdateAgainThatMayHaveBeenLost) {
  Ask(1);
  const DrafterLink::Answer answer =
      link_.Receive(absl::UnavailableError("gone"), kVocabSize);
  EXPECT_EQ(answer.outcome, DraftOutcome::kError);
  EXPECT_TRUE(answer.unavailable);
  EXPECT_THAT(Ask(2).update.new_tokens, ElementsAre(10, 11, 12));
}

TEST_F(DrafterLinkTest, RootAloneIsAnEmptyAnswer) {
  Ask(1);
  Proposal proposal = Good(1);
  proposal.tree = TokenTree::RootOnly(session_.last_token());
  EXPECT_EQ(link_.Receive(proposal, kVocabSize).outcome, DraftOutcome::kEmpty);
  EXPECT_TRUE(link_.may_ask());
}

TEST_F(DrafterLinkTest, IsNotAskedAgainAfterItRefusedARequestAsInvalid) {
  Ask(1);
  EXPECT_EQ(
      link_.Receive(absl::InvalidArgumentError("what?"), kVocabSize).outcome,
      DraftOutcome::kError);
  EXPECT_TRUE(link_.quarantined());
}

TEST_F(DrafterLinkTest, IsQuarantinedIfItClaimsToHoldTokensThatDoNotExist) {
  Ask(1);
  EXPECT_EQ(link_.Receive(StaleBaseError(4, 0), kVocabSize).outcome,
            DraftOutcome::kMalformed);
  EXPECT_TRUE(link_.quarantined());
}

TEST_F(DrafterLinkTest, PartIsATreeUntilTheAnswerReplacesIt) {
  Ask(1);
  EXPECT_EQ(link_.ReceivePartial(Good(1), kVocabSize), DraftOutcome::kUsed);
  ASSERT_NE(link_.TreeOf(1), nullptr);
  EXPECT_EQ(link_.TreeOf(1)->num_nodes(), 2);
  EXPECT_FALSE(link_.may_ask());
  Proposal whole = Good(1);
  whole.tree.Add(0, 2, -2.0f);
  EXPECT_EQ(link_.Receive(whole, kVocabSize).outcome, DraftOutcome::kUsed);
  EXPECT_EQ(link_.TreeOf(1)->num_nodes(), 3);
  EXPECT_TRUE(link_.may_ask());
}

TEST_F(DrafterLinkTest, PartOutlivesAFailureButAcknowledgesNothing) {
  Ask(1);
  EXPECT_EQ(link_.ReceivePartial(Good(1), kVocabSize), DraftOutcome::kUsed);
  EXPECT_EQ(link_.Receive(absl::InternalError("bug"), kVocabSize).outcome,
            DraftOutcome::kError);
  EXPECT_NE(link_.TreeOf(1), nullptr);
  EXPECT_THAT(Ask(2).update.new_tokens, ElementsAre(10, 11, 12));
}

struct Lie {
  const char* name;
  std::function<void(Proposal&)> tell;
};

class DrafterLinkLieTest : public DrafterLinkTest,
                           public testing::WithParamInterface<Lie> {};

TEST_P(DrafterLinkLieTest, IsDroppedAndQuarantined) {
  Ask(1);
  Proposal proposal = Good(1);
  GetParam().tell(proposal);
  EXPECT_EQ(link_.Receive(std::move(proposal), kVocabSize).outcome,
            DraftOutcome::kMalformed);
  EXPECT_EQ(link_.TreeOf(1), nullptr);
  EXPECT_TRUE(link_.quarantined());
  EXPECT_FALSE(link_.may_ask());
}

TEST_P(DrafterLinkLieTest, InAPartItTakesTheWholeTreeAlong) {
  Ask(1);
  EXPECT_EQ(link_.ReceivePartial(Good(1), kVocabSize), DraftOutcome::kUsed);
  Proposal proposal = Good(1);
  GetParam().tell(proposal);
  EXPECT_EQ(link_.ReceivePartial(std::move(proposal), kVocabSize),
            DraftOutcome::kMalformed);
  EXPECT_EQ(link_.TreeOf(1), nullptr);
  EXPECT_EQ(link_.Receive(Good(1), kVocabSize).outcome,
            DraftOutcome::kMalformed);
  EXPECT_EQ(link_.TreeOf(1), nullptr);
  EXPECT_FALSE(link_.may_ask());
}

INSTANTIATE_TEST_SUITE_P(
    Lies, DrafterLinkLieTest,
    testing::Values(
        Lie{"ReplayedRound", [](Proposal& p) { p.round = 0; }},
        Lie{"FutureRound", [](Proposal& p) { p.round = 2; }},
        Lie{"WrongLength", [](Proposal& p) { p.committed_length = 2; }},
        Lie{"WrongRoot", [](Proposal& p) { p.tree.tokens[0] = 11; }},
        Lie{"NoRoot", [](Proposal& p) { p.tree = {}; }},
        Lie{"Cycle", [](Proposal& p) { p.tree.parents[1] = 1; }},
        Lie{"TokenOutOfRange",
            [](Proposal& p) { p.tree.tokens[1] = kVocabSize; }},
        Lie{"NegativeToken", [](Proposal& p) { p.tree.tokens[1] = -1; }},
        Lie{"NotANumber", [](Proposal& p) { p.tree.log_probs[1] = NAN; }},
        Lie{"TooManyNodes",
            [](Proposal& p) {
              for (int i = 0; i < 4; ++i) p.tree.Add(0, i, -1.0f);
            }},
        Lie{"MillionNodes",
            [](Proposal& p) {
              for (int i = 0; i < 1000000; ++i) p.tree.Add(0, 1, -1.0f);
            }},
        Lie{"TooDeep",
            [](Proposal& p) {
              for (int i = 1; i < 4; ++i) p.tree.Add(i, 1, -1.0f);
            }},
        Lie{"ColumnsDiffer", [](Proposal& p) { p.tree.tokens.push_back(1); }}),
    [](const auto& suite) { return std::string(suite.param.name); });

}  // namespace
}  // namespace espalier::coordinator
