#include "coordinator/peers/drafter_link.h"

#include <cmath>
#include <functional>

#include "common/speculation/stale_base.h"
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
  // Returns a valid answer to the last request.
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

FeatureRows Features(int64_t first, int64_t end) {
  return {.first_position = first,
          .width = 1,
          .data = std::vector<uint16_t>(end - first)};
}

TEST_F(DrafterLinkTest, FeaturesThatWereAnsweredNeedNotBeSentAgain) {
  EXPECT_EQ(link_.features_end(), 0);
  link_.Ask(session_, 1, kBudget, Features(0, 2));
  EXPECT_EQ(link_.features_end(), 0) << "they may be lost";
  link_.Receive(Good(1), kVocabSize);
  EXPECT_EQ(link_.features_end(), 2);
  session_.Commit({20, 21});
  Ask(2);
  link_.Receive(Good(2), kVocabSize);
  EXPECT_EQ(link_.features_end(), 2) << "there were none";
}

TEST_F(DrafterLinkTest, FeaturesBeyondTheHeldLengthAreSentAgain) {
  link_.Ask(session_, 1, kBudget, Features(0, 2));
  link_.Receive(Good(1), kVocabSize);
  session_.Commit({20, 21});
  link_.Ask(session_, 2, kBudget, Features(2, 4));
  link_.Receive(StaleBaseError(3, 3), kVocabSize);
  EXPECT_EQ(link_.features_end(), 2) << "the last ones did not arrive";
  Ask(3);
  link_.Receive(StaleBaseError(1, 3), kVocabSize);
  EXPECT_EQ(link_.features_end(), 1);
}

TEST_F(DrafterLinkTest, SendsAnUpdateAgainThatMayHaveBeenLost) {
  Ask(1);
  const DrafterLink::Answer answer =
      link_.Receive(absl::UnavailableError("gone"), kVocabSize);
  EXPECT_EQ(answer.outcome, DraftOutcome::kError);
  EXPECT_TRUE(answer.unavailable);
  EXPECT_THAT(Ask(2).update.new_tokens, ElementsAre(10, 11, 12));
}

// A draft for the text after the committed tokens, 20, 21 and one more.
class DrafterLinkLookaheadTest : public DrafterLinkTest {
 protected:
  static constexpr uint64_t kRound = 2;

  DrafterLinkLookaheadTest() {
    Ask(1);
    link_.Receive(Good(1), kVocabSize);
    request_ = link_.AskLookahead(session_, kRound, kBudget, {}, {20, 21});
  }

  // 30 or 31 after the lookahead, then 40.
  Proposal Ahead() const {
    Proposal proposal = {.round = kRound,
                         .committed_length = session_.length(),
                         .tree = TokenTree::RootOnly(21)};
    proposal.tree.Add(0, 30, -1.0f);
    proposal.tree.Add(0, 31, -2.0f);
    proposal.tree.Add(2, 40, -2.5f);
    return proposal;
  }

  std::optional<LookaheadOutcome> AfterRound(
      const std::vector<TokenId>& tokens) {
    session_.Commit(tokens);
    return link_.ResolveLookahead(session_, kRound);
  }

  ProposeRequest request_;
};

TEST_F(DrafterLinkLookaheadTest, SendsTheGuessBesideTheCommittedTokens) {
  EXPECT_THAT(request_.lookahead, ElementsAre(20, 21));
  EXPECT_THAT(request_.update.new_tokens, ElementsAre());
  EXPECT_EQ(request_.update.committed_length(), session_.length());
  EXPECT_FALSE(link_.may_ask());
}

TEST_F(DrafterLinkLookaheadTest, WhatComesTrueIsTheRoundsTree) {
  EXPECT_EQ(link_.Receive(Ahead(), kVocabSize).outcome, DraftOutcome::kUsed);
  EXPECT_EQ(link_.TreeOf(kRound), nullptr) << "not before it is known to fit";
  EXPECT_EQ(AfterRound({20, 21, 31}), LookaheadOutcome::kHit);
  const TokenTree* tree = link_.TreeOf(kRound);
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->tokens, ElementsAre(31, 40));
  EXPECT_THAT(tree->log_probs, ElementsAre(0.0f, -0.5f));
  EXPECT_EQ(link_.TakeArrived()->committed_length, session_.length());
}

class DrafterLinkMissTest
    : public DrafterLinkLookaheadTest,
      public testing::WithParamInterface<std::vector<TokenId>> {};

TEST_P(DrafterLinkMissTest, IsAskedForInItsRound) {
  link_.Receive(Ahead(), kVocabSize);
  EXPECT_EQ(AfterRound(GetParam()), LookaheadOutcome::kMiss);
  EXPECT_EQ(link_.TreeOf(kRound), nullptr);
  EXPECT_EQ(link_.ResolveLookahead(session_, kRound), std::nullopt)
      << "told twice";
  EXPECT_EQ(Ask(kRound).update.new_tokens, GetParam());
}

using Tokens = std::vector<TokenId>;
INSTANTIATE_TEST_SUITE_P(
    Rounds, DrafterLinkMissTest,
    testing::Values(Tokens{20},      // ends before
                    Tokens{20, 21},  // the last of the lookahead is the bonus
                    Tokens{20, 22, 31},  // goes elsewhere
                    Tokens{20, 21, 32},  // a bonus token that is not predicted
                    Tokens{20, 21, 30}   // nothing is predicted after it
                    ));

TEST_F(DrafterLinkLookaheadTest, WhatIsNotThereInTimeIsNoLongerExpected) {
  const uint64_t ticket = link_.ticket();
  EXPECT_TRUE(link_.expects(ticket));
  EXPECT_EQ(AfterRound({20, 21, 31}), LookaheadOutcome::kWasted);
  EXPECT_FALSE(link_.expects(ticket));
  EXPECT_THAT(Ask(kRound).update.new_tokens, ElementsAre(20, 21, 31));
}

TEST_F(DrafterLinkLookaheadTest, WhoLiesAheadOfTimeIsNotAskedAgain) {
  Proposal proposal = Ahead();
  proposal.tree.tokens[0] = session_.last_token();  // not the lookahead's
  EXPECT_EQ(link_.Receive(proposal, kVocabSize).outcome,
            DraftOutcome::kMalformed);
  EXPECT_EQ(AfterRound({20, 21, 31}), std::nullopt);
  EXPECT_TRUE(link_.quarantined());
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

TEST_F(DrafterLinkTest, IsQuarantinedIfItsAnswerCannotBeRead) {
  Ask(1);
  EXPECT_EQ(
      link_.Receive(absl::DataLossError("ragged columns"), kVocabSize).outcome,
      DraftOutcome::kMalformed);
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
