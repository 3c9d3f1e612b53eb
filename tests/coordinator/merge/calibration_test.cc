#include "coordinator/merge/calibration.h"

#include <cmath>
#include <random>
#include <vector>

#include "coordinator/merge/merge_policies.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

constexpr TokenId kRoot = 9;

TokenTree OneLookahead(TokenId token, double chance) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, token, static_cast<float>(std::log(chance)));
  return tree;
}

// A round in which drafter i proposes trees[i]; null: none.
class Round {
 public:
  explicit Round(std::vector<TokenTree> trees) : trees_(std::move(trees)) {
    for (size_t i = 0; i < trees_.size(); ++i) {
      const int drafter = static_cast<int>(i);
      drafted_.push_back(
          {.drafter = drafter, .tree = &trees_[i], .peer = drafter});
    }
  }
  TokenTrie trie() const { return TokenTrie(kRoot, drafted_); }
  absl::Span<const DraftedTree> drafted() const { return drafted_; }

 private:
  std::vector<TokenTree> trees_;
  std::vector<DraftedTree> drafted_;
};

double ChanceOf(const SessionCalibration& calibration, const TokenTrie& trie,
                TokenId token) {
  return calibration.Chance(trie, trie.ChildOf(0, token), 0);
}

TEST(CalibrationTest, TakesDraftersAtTheirWordAtFirst) {
  const Round round({OneLookahead(1, 0.75), OneLookahead(1, 0.5)});
  Calibration shared;
  const SessionCalibration calibration(&shared);
  EXPECT_NEAR(ChanceOf(calibration, round.trie(), 1), 0.75, 1e-6);
}

TEST(CalibrationTest, LearnsWhatEachDraftersWordIsWorth) {
  std::mt19937_64 random(1);
  Calibration shared;
  SessionCalibration calibration(&shared);
  for (int i = 0; i < 2000; ++i) {
    // Drafter 0 overrates itself: it is right 3 times in 10. Drafter 1 is
    // honest.
    const double u = std::uniform_real_distribution<>(0, 1)(random);
    const TokenId emitted = u < 0.3 ? 1 : u < 0.8 ? 2 : 3;
    calibration.Learn(
        Round({OneLookahead(1, 0.9), OneLookahead(2, 0.5)}).trie(),
        {{emitted}});
  }
  const TokenTrie trie =
      Round({OneLookahead(1, 0.9), OneLookahead(2, 0.5)}).trie();
  EXPECT_NEAR(ChanceOf(calibration, trie, 1), 0.3, 0.08);
  EXPECT_NEAR(ChanceOf(calibration, trie, 2), 0.5, 0.08);
}

TEST(CalibrationTest, ASessionMayBeHarderThanTheOthers) {
  std::mt19937_64 random(3);
  const Round round({OneLookahead(1, 0.7)});
  const TokenTrie trie = round.trie();
  const auto live = [&](SessionCalibration& session, double right, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const double u = std::uniform_real_distribution<>(0, 1)(random);
      session.Learn(trie, {{u < right ? 1 : 2}});
    }
  };
  Calibration shared;
  SessionCalibration easy(&shared), hard(&shared);
  live(easy, 0.7, 1000);
  EXPECT_NEAR(ChanceOf(hard, trie, 1), 0.7, 0.08);
  live(hard, 0.2, 40);
  EXPECT_LT(ChanceOf(hard, trie, 1), 0.5);
  EXPECT_GT(ChanceOf(easy, trie, 1), 0.6);
}

TEST(CalibrationTest, BoasterCannotCrowdOutAnHonestDrafter) {
  Calibration shared;
  SessionCalibration calibration(&shared);
  const auto budgeted = NewBudgetedMerge();
  const Round round({OneLookahead(1, 0.9), OneLookahead(2, 0.5)});
  const auto first_choice = [&] {
    return budgeted
        ->Merge({.root = kRoot,
                 .trees = round.drafted(),
                 .max_nodes = 1,
                 .calibration = &calibration})
        .tokens[1];
  };
  EXPECT_EQ(first_choice(), 1);
  for (int i = 0; i < 200; ++i) {
    const TokenId emitted = i % 2 == 0 ? 2 : 3;
    calibration.Learn(round.trie(), {{emitted}});
  }
  EXPECT_EQ(first_choice(), 2);
}

// A drafter that is as sure of its second choice as of its first.
TEST(CalibrationTest, SecondChoicesAreHeldAgainstSecondChoices) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, 1, std::log(0.5f));
  tree.Add(0, 2, std::log(0.45f));
  const Round round({tree});
  Calibration shared;
  SessionCalibration calibration(&shared);
  for (int i = 0; i < 500; ++i) calibration.Learn(round.trie(), {{1}});
  EXPECT_GT(ChanceOf(calibration, round.trie(), 1), 0.8);
  EXPECT_LT(ChanceOf(calibration, round.trie(), 2), 0.1);
}

// It is the rank that is learned, not the token.
TEST(CalibrationTest, ARankIsLearnedForAllThatHaveIt) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, 1, std::log(0.4f));
  tree.Add(0, 2, std::log(0.35f));
  const Round round({tree});
  TokenTree other = TokenTree::RootOnly(kRoot);
  other.Add(0, 5, std::log(0.4f));
  other.Add(0, 6, std::log(0.35f));
  const Round next({other});
  Calibration shared;
  SessionCalibration calibration(&shared);
  for (int i = 0; i < 500; ++i) calibration.Learn(round.trie(), {{2}});
  EXPECT_LT(ChanceOf(calibration, next.trie(), 5), 0.1);
  EXPECT_GT(ChanceOf(calibration, next.trie(), 6), 0.6);
}

// A drafter that knows the next token and none after it.
TEST(CalibrationTest, DeepNodesAreHeldAgainstDeepNodes) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(tree.Add(0, 1, std::log(0.5f)), 2, std::log(0.25f));
  const Round round({tree});
  const TokenTrie trie = round.trie();
  Calibration shared;
  SessionCalibration calibration(&shared);
  for (int i = 0; i < 500; ++i) calibration.Learn(trie, {{1, 3}});
  const int32_t first = trie.ChildOf(0, 1);
  EXPECT_GT(calibration.Chance(trie, first, 0), 0.8);
  EXPECT_LT(calibration.Chance(trie, trie.ChildOf(first, 2), first), 0.1);
}

// Two drafters that agree in every other round. How often the token that they
// agree on comes true, and where they differ that of drafter 0 and of 1:
struct TwoMinds {
  double agreed;
  double first;
  double second;
};

class TwoMindsTest : public testing::Test {
 protected:
  void Learn(uint64_t seed, const TwoMinds& right) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const double u = std::uniform_real_distribution<>(0, 1)(random);
      const double either = right.first + right.second;
      calibration_.Learn(agree_.trie(), {{u < right.agreed ? 1 : 3}});
      calibration_.Learn(differ_.trie(), {{u < right.first ? 1
                                           : u < either    ? 2
                                                           : 3}});
    }
  }

  const Round agree_{{OneLookahead(1, 0.5), OneLookahead(1, 0.5)}};
  const Round differ_{{OneLookahead(1, 0.5), OneLookahead(2, 0.5)}};
  Calibration shared_;
  SessionCalibration calibration_{&shared_};
};

TEST_F(TwoMindsTest, AgreementCountsForMore) {
  Learn(2, {.agreed = 0.8, .first = 0.3, .second = 0.3});
  EXPECT_NEAR(ChanceOf(calibration_, agree_.trie(), 1), 0.8, 0.1);
  EXPECT_NEAR(ChanceOf(calibration_, differ_.trie(), 1), 0.3, 0.1);
}

TEST_F(TwoMindsTest, WhoIsAloneWithATokenCounts) {
  // Both are right every other time; where they differ, drafter 0 is.
  Learn(4, {.agreed = 0.5, .first = 0.5, .second = 0.05});
  EXPECT_NEAR(ChanceOf(calibration_, differ_.trie(), 1), 0.5, 0.1);
  EXPECT_NEAR(ChanceOf(calibration_, differ_.trie(), 2), 0.05, 0.05);
}

// Drafter 0 is right where nobody else goes on, and wrong where another does.
TEST_F(TwoMindsTest, HowManyGoOnCounts) {
  const Round alone({OneLookahead(1, 0.5)});
  for (int i = 0; i < 500; ++i) {
    calibration_.Learn(alone.trie(), {{1}});
    calibration_.Learn(differ_.trie(), {{2}});
  }
  EXPECT_GT(ChanceOf(calibration_, alone.trie(), 1), 0.8);
  EXPECT_LT(ChanceOf(calibration_, differ_.trie(), 1), 0.1);
}

TEST(CalibrationTest, ADrafterIsOneHoweverManyChildrenItProposes) {
  TokenTree many = TokenTree::RootOnly(kRoot);
  for (TokenId token = 1; token < 5; ++token) many.Add(0, token, -1.0f);
  EXPECT_EQ(Round({many}).trie().NumProposers(0), 1);
  EXPECT_EQ(Round({many, OneLookahead(2, 0.5)}).trie().NumProposers(0), 2);
  EXPECT_EQ(Round({many}).trie().NumProposers(1), 0);
}

TEST(CalibrationTest, OfEquallyLikelyTokensTheLowerRanksFirst) {
  for (const bool lower_first : {true, false}) {
    TokenTree tree = TokenTree::RootOnly(kRoot);
    tree.Add(0, lower_first ? 1 : 2, -1.0f);
    tree.Add(0, lower_first ? 2 : 1, -1.0f);
    const Round round({tree});
    const TokenTrie trie = round.trie();
    EXPECT_EQ(trie.node(trie.ChildOf(0, 1)).scores[0].rank, 1);
    EXPECT_EQ(trie.node(trie.ChildOf(0, 2)).scores[0].rank, 2);
  }
}

TEST(CalibrationTest, AScoreIsGivenThePathToTheParent) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(tree.Add(0, 1, -0.5f), 2, -1.25f);
  const Round round({tree});
  const TokenTrie trie = round.trie();
  const auto& score = trie.node(trie.ChildOf(trie.ChildOf(0, 1), 2)).scores[0];
  EXPECT_EQ(score.log_prob, -1.25f);
  EXPECT_EQ(score.conditional, -0.75f);
}

// It is right whenever it is sure, and else never.
TEST(CalibrationTest, HowSureADrafterIsCounts) {
  const Round sure({OneLookahead(1, 0.5)});
  const Round unsure({OneLookahead(1, 0.2)});
  Calibration shared;
  SessionCalibration calibration(&shared);
  for (int i = 0; i < 2000; ++i) {
    calibration.Learn(sure.trie(), {{1}});
    calibration.Learn(unsure.trie(), {{2}});
  }
  EXPECT_GT(ChanceOf(calibration, sure.trie(), 1), 0.85);
  EXPECT_LT(ChanceOf(calibration, unsure.trie(), 1), 0.1);
}

TEST(CalibrationTest, ForgetsWhatIsLongPast) {
  Calibration shared;
  SessionCalibration calibration(&shared);
  const Round round({OneLookahead(1, 0.5)});
  for (int i = 0; i < 3000; ++i) calibration.Learn(round.trie(), {{1}});
  EXPECT_GT(ChanceOf(calibration, round.trie(), 1), 0.9);
  for (int i = 0; i < 3000; ++i) calibration.Learn(round.trie(), {{2}});
  EXPECT_LT(ChanceOf(calibration, round.trie(), 1), 0.1);
}

}  // namespace
}  // namespace espalier::coordinator
