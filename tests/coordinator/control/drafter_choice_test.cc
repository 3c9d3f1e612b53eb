#include "coordinator/control/drafter_choice.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/coordinator/control/rounds_of_drafters.h"

namespace espalier::coordinator {
namespace {

TEST(DrafterChoiceTest, TimeOnTheVerifiersCoresCostsAllSessions) {
  for (bool shares : {false, true}) {
    Rounds rounds({{.accepted = 2,
                    .takes = absl::Milliseconds(5),
                    .cpu_group = 7,
                    .shares_verifier_cores = shares}});
    rounds.Run(50);
    EXPECT_TRUE(rounds.choice.asks(0));
    // Two tokens of this session, or half a token of each of eight.
    rounds.other_sessions = 7;
    rounds.Run(20);
    EXPECT_EQ(rounds.choice.asks(0), !shares);
    EXPECT_EQ(rounds.choice.IsWorthwhile(0, 1, {kPrice, 7}), !shares);
  }
}

// 4 ms of eight sessions' time: 3.2 tokens, and at most 1/256 of them all.
TEST(DrafterChoiceTest, ProbesTakeASmallShareOfTheTimeOfAllSessions) {
  for (bool shares : {false, true}) {
    Rounds rounds({{.accepted = 0,
                    .takes = absl::Milliseconds(4),
                    .cpu_group = 7,
                    .shares_verifier_cores = shares}});
    rounds.other_sessions = 7;
    rounds.Run(5000);
    rounds.num_asked = 0;
    rounds.Run(16 * 256);
    EXPECT_NEAR(rounds.num_asked, shares ? 40 : 124, 2);
  }
}

TEST(DrafterChoiceTest, AsksWhoIsWorthTheTime) {
  Rounds rounds({{.accepted = 2, .takes = absl::Milliseconds(5)}});
  rounds.Run(50);
  EXPECT_TRUE(rounds.choice.asks(0));
}

TEST(DrafterChoiceTest, DropsWhoBringsLessThanItsTime) {
  Rounds rounds({{.accepted = 2, .takes = absl::Milliseconds(5)},
                 {.accepted = 2, .takes = absl::Milliseconds(30)}});
  rounds.Run(50);
  EXPECT_TRUE(rounds.choice.asks(0));
  EXPECT_FALSE(rounds.choice.asks(1));
}

// A round says little.
TEST(DrafterChoiceTest, ChangesHaveRoundsBetweenThem) {
  DrafterValue useless(16);
  useless.alone.Restart(0);
  useless.beside.Restart(0);
  useless.seconds.Restart(0.030);
  ChoiceWithBudget choice({useless});
  const DrafterReturn asked = {.attention = DraftCall::Attention::kAwaited,
                               .accepted = 0,
                               .waited = absl::Milliseconds(30)};
  for (int i = 0; i < 3; ++i) {
    choice.Learn({asked}, kPrice);
    EXPECT_TRUE(choice.asks(0)) << i;
  }
  choice.Learn({asked}, kPrice);
  EXPECT_FALSE(choice.asks(0));
}

TEST(DrafterChoiceTest, KeepsOneOfTwoThatSayTheSame) {
  Rounds rounds(
      {{.accepted = 2, .takes = absl::Milliseconds(5), .cpu_group = 1},
       {.accepted = 2, .takes = absl::Milliseconds(5), .cpu_group = 1}});
  rounds.Run(50);
  EXPECT_NE(rounds.choice.asks(0), rounds.choice.asks(1));
}

// What it gained beside one that has gone says nothing.
TEST(DrafterChoiceTest, WhoIsLeftIsWorthWhatItGainsAlone) {
  ChoiceWithBudget choice({ValueOf(2, 0, 0.005), ValueOf(2, 0.1, 0.005)});
  const DrafterReturn first =
      AskedReturn({.alone = 2, .beside = 0}, absl::Milliseconds(5));
  DrafterReturn second =
      AskedReturn({.alone = 2, .beside = 0.1}, absl::Milliseconds(5));
  DrafterReturn on_same_cores = first;
  on_same_cores.cpu_group = second.cpu_group = 1;
  LearnUntilChange(choice, {on_same_cores, second});
  ASSERT_FALSE(choice.asks(0));
  ASSERT_TRUE(choice.asks(1));
  EXPECT_EQ(choice.values()[1].beside.mean(), choice.values()[1].alone.mean());
  EXPECT_LT(choice.values()[0].beside.mean(), 0.1) << "its others are the same";
}

// As a shadow, or switched off.
class InactiveDrafterTest : public testing::Test {
 protected:
  // A good drafter that is not active, and its trees.
  const DrafterValue value_ = ValueOf(5, 5, 0.050);
  const TokenTree tree_ = TokenTree::RootOnly(0);
  DrafterReturn inactive_ = {.attention = DraftCall::Attention::kShadow,
                             .waited = absl::Milliseconds(50),
                             .compute = absl::Milliseconds(50),
                             .late = &tree_,
                             .gain = {.alone = 1, .beside = 1},
                             .active = false};
};

TEST_F(InactiveDrafterTest, ItsGainsAreNotCounted) {
  ChoiceWithBudget choice({value_});
  LearnUntilChange(choice, {inactive_});
  EXPECT_EQ(choice.values()[0].alone.mean(), 5);
  EXPECT_EQ(choice.values()[0].beside.mean(), 5);
}

TEST_F(InactiveDrafterTest, ItIsNotSwitched) {
  ChoiceWithBudget choice({ValueOf(0, -1, 0.050)});
  LearnUntilChange(choice, {inactive_});
  EXPECT_TRUE(choice.asks(0)) << "as it was, for when it is active again";
}

TEST_F(InactiveDrafterTest, OthersAreNotMeasuredByIt) {
  ChoiceWithBudget choice(
      {value_, ValueOf(2, 0, 0.005), ValueOf(2, 0.1, 0.005)});
  DrafterReturn first =
      AskedReturn({.alone = 2, .beside = 0}, absl::Milliseconds(5));
  DrafterReturn second =
      AskedReturn({.alone = 2, .beside = 0.1}, absl::Milliseconds(5));
  first.cpu_group = second.cpu_group = 1;
  LearnUntilChange(choice, {inactive_, first, second});
  ASSERT_FALSE(choice.asks(1));
  ASSERT_TRUE(choice.asks(2));
  EXPECT_EQ(choice.values()[2].beside.mean(), choice.values()[2].alone.mean());
}

// Beside it, the other's time would be free.
TEST_F(InactiveDrafterTest, ItsTimeDoesNotHideThatOfOthers) {
  ChoiceWithBudget choice({value_, ValueOf(0, 0, 0.030)});
  LearnUntilChange(choice,
                   {inactive_, AskedReturn({}, absl::Milliseconds(30))});
  EXPECT_FALSE(choice.asks(1));
}

TEST_F(InactiveDrafterTest, WhatItPredictsKeepsNobodyFromBeingProbed) {
  DrafterValue wrong = ValueOf(0, 0, 0.030);
  wrong.asked = false;
  ChoiceWithBudget choice({value_, wrong});
  inactive_.accepted = 3;
  for (int i = 0; i < 40 && !choice.Probes(1, kPrice); ++i) {
    choice.Learn({inactive_, {}}, kPrice);
  }
  EXPECT_TRUE(choice.Probes(1, kPrice));
}

// Of 30 ms that both waited, it computed a third.
TEST(DrafterChoiceTest, OneOfSeveralOnTheSameCoresCostsWhatItComputed) {
  ChoiceWithBudget choice({ValueOf(2, 2, 0.010), ValueOf(2, 2, 0.020)});
  DrafterReturn first =
      AskedReturn({.alone = 2, .beside = 2}, absl::Milliseconds(30));
  DrafterReturn second = first;
  first.compute = absl::Milliseconds(10);
  second.compute = absl::Milliseconds(20);
  first.cpu_group = second.cpu_group = 1;
  for (int i = 0; i < 3; ++i) choice.Learn({first, second}, kPrice);
  EXPECT_NEAR(choice.values()[0].seconds.mean(), 0.010, 1e-9);
  EXPECT_NEAR(choice.values()[1].seconds.mean(), 0.020, 1e-9);
}

// Drafters on cores that they share with the verifier, together far too slow.
// No probe is paid for.
class CompanyTest : public testing::Test {
 protected:
  static Rounds Together(const std::vector<int64_t>& accepted,
                         absl::Duration alone) {
    std::vector<Habit> habits;
    for (int64_t tokens : accepted) {
      habits.push_back({.accepted = tokens,
                        .takes = alone,
                        .cpu_group = 1,
                        .shares_verifier_cores = true});
    }
    Rounds rounds(habits);
    rounds.company_slows = 6;
    rounds.choice.Spend(1000);
    return rounds;
  }
  static int NumAsked(const Rounds& rounds) {
    int asked = 0;
    for (size_t i = 0; i < rounds.habits.size(); ++i) {
      asked += rounds.choice.asks(static_cast<int>(i)) ? 1 : 0;
    }
    return asked;
  }
};

TEST_F(CompanyTest, OneIsTriedAloneAndStays) {
  Rounds rounds = Together({1, 1, 1}, absl::Milliseconds(6));
  rounds.Run(60);
  EXPECT_EQ(NumAsked(rounds), 1);
}

TEST_F(CompanyTest, WhoWasDroppedIsTriedAloneWhenNobodyIsLeft) {
  Rounds rounds = Together({1, 2}, absl::Milliseconds(6));
  rounds.Run(8);
  ASSERT_FALSE(rounds.choice.asks(0));
  ASSERT_TRUE(rounds.choice.asks(1));
  rounds.habits[1].accepted = 0;
  rounds.Run(100);
  EXPECT_TRUE(rounds.choice.asks(0));
  EXPECT_FALSE(rounds.choice.asks(1));
}

TEST_F(CompanyTest, EachIsTriedOnce) {
  Rounds rounds = Together({1, 1, 1}, absl::Milliseconds(13));
  rounds.Run(60);
  EXPECT_EQ(NumAsked(rounds), 0);
  EXPECT_GT(rounds.num_asked, 3 * 4) << "in company";
  rounds.num_asked = 0;
  rounds.choice.Spend(1000);
  rounds.Run(200);
  EXPECT_EQ(rounds.num_asked, 0);
}

// Its gain beside others, or of late trees, shows that it is the better one.
TEST(DrafterChoiceTest, TakesABetterOneInsteadOfAGoodOne) {
  Rounds rounds(
      {{.accepted = 2, .takes = absl::Milliseconds(5), .cpu_group = 1},
       {.accepted = 0, .takes = absl::Milliseconds(5), .cpu_group = 1}});
  rounds.Run(50);
  ASSERT_TRUE(rounds.choice.asks(0));
  ASSERT_FALSE(rounds.choice.asks(1));
  rounds.habits[1].accepted = 4;
  rounds.Probe();
  rounds.Run(50);
  EXPECT_FALSE(rounds.choice.asks(0));
  EXPECT_TRUE(rounds.choice.asks(1));
}

// It adds nothing beside the one that it is as good as.
TEST(DrafterChoiceTest, TakesAFasterOneThatSaysTheSameInstead) {
  DrafterValue slow(16);
  slow.alone.Restart(2);
  slow.beside.Restart(2);
  slow.seconds.Restart(0.010);
  DrafterValue fast(16);
  fast.alone.Restart(2);
  fast.beside.Restart(0);
  fast.seconds.Restart(0.006);
  fast.asked = false;
  ChoiceWithBudget choice({slow, fast});
  DrafterReturn asked = {.attention = DraftCall::Attention::kAwaited,
                         .accepted = 2};
  asked.gain = {.alone = 2, .beside = 2};
  asked.waited = asked.compute = absl::Milliseconds(10);
  asked.cpu_group = 1;
  const DrafterReturn unasked = {.cpu_group = 1};
  for (int i = 0; i < 4; ++i) choice.Learn({asked, unasked}, kPrice);
  EXPECT_FALSE(choice.asks(0));
  EXPECT_TRUE(choice.asks(1));
}

TEST(DrafterChoiceTest, OneThatDraftsBesideASlowerOneIsFree) {
  Rounds rounds({{.accepted = 3, .takes = absl::Milliseconds(9)},
                 {.accepted = 3, .takes = absl::Milliseconds(8)}});
  rounds.Run(50);
  EXPECT_TRUE(rounds.choice.asks(0) || rounds.choice.asks(1));
}

TEST(DrafterChoiceTest, SwitchesSpeculationOffAndOn) {
  Rounds rounds({{.accepted = 0, .takes = absl::Milliseconds(5)}});
  rounds.Run(50);
  EXPECT_FALSE(rounds.choice.asks(0));
  rounds.habits[0].accepted = 3;
  rounds.Run(150);
  EXPECT_TRUE(rounds.choice.asks(0));
}

TEST(DrafterChoiceTest, CatchingUpIsNotHeldAgainstIt) {
  ChoiceWithBudget choice({DrafterValue(16)});
  const auto answer = [&choice](absl::Duration waited) {
    const DrafterReturn r = {.attention = DraftCall::Attention::kAwaited,
                             .accepted = 2,
                             .waited = waited,
                             .compute = waited};
    choice.Learn({r}, kPrice);
  };
  answer(absl::Milliseconds(100));
  EXPECT_EQ(choice.values()[0].seconds.mean(), 0);
  answer(absl::Milliseconds(5));
  EXPECT_NEAR(choice.values()[0].seconds.mean(), 0.005, 1e-9);
  choice.Learn({DrafterReturn()}, kPrice);
  answer(absl::Milliseconds(50));
  EXPECT_NEAR(choice.values()[0].seconds.mean(), 0.005, 1e-9);
}

// The round stopped waiting while it caught up.
TEST(DrafterChoiceTest, CatchingUpInVainIsNotHeldAgainstItEither) {
  ChoiceWithBudget choice({DrafterValue(16)});
  const auto round = [&choice](absl::Duration waited, bool in_vain) {
    const DrafterReturn r = {.attention = DraftCall::Attention::kAwaited,
                             .waited = waited,
                             .in_vain = in_vain};
    choice.Learn({r}, kPrice);
    return choice.values()[0].seconds.mean();
  };
  EXPECT_EQ(round(absl::Milliseconds(6), /*in_vain=*/true), 0);
  EXPECT_EQ(round(absl::Milliseconds(56), false), 0) << "the same call";
  EXPECT_NEAR(round(absl::Milliseconds(5), false), 0.005, 1e-9);
  EXPECT_NEAR(round(absl::Milliseconds(9), true), 0.007, 1e-9)
      << "it had kept up";
}

TEST(DrafterChoiceTest, QuickIsWhoCostsNextToNothing) {
  Rounds rounds({{.accepted = 2, .takes = absl::Microseconds(300)},
                 {.accepted = 3, .takes = absl::Milliseconds(5)}});
  EXPECT_TRUE(rounds.choice.IsQuick(1, kPrice)) << "nothing is known yet";
  rounds.Run(2);
  EXPECT_TRUE(rounds.choice.IsQuick(0, kPrice));
  EXPECT_FALSE(rounds.choice.IsQuick(1, kPrice));
  EXPECT_FALSE(rounds.choice.IsQuick(0, 10 * kPrice)) << "time is dearer";
}

// It predicts 2 tokens and costs half a token.
TEST(DrafterChoiceTest, IsWorthwhileWhereOthersPredictNothing) {
  Rounds rounds({{.accepted = 2, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  EXPECT_TRUE(rounds.choice.IsWorthwhile(0, 1, kPrice));
  EXPECT_TRUE(rounds.choice.IsWorthwhile(0, 0.26, kPrice));
  EXPECT_FALSE(rounds.choice.IsWorthwhile(0, 0.24, kPrice));
}

// It was not asked because others sufficed, which is no evidence against it.
TEST(DrafterChoiceTest, RoundsWithoutACallAreNotCounted) {
  ChoiceWithBudget choice({DrafterValue(16), DrafterValue(16)});
  const DrafterReturn copied = {.attention = DraftCall::Attention::kAwaited,
                                .accepted = 8,
                                .gain = {.alone = 8, .beside = 8}};
  const double gain = choice.values()[1].alone.mean();
  for (int i = 0; i < 50; ++i) choice.Learn({copied, {}}, kPrice);
  EXPECT_EQ(choice.values()[1].alone.mean(), gain);
  EXPECT_TRUE(choice.asks(1));
}

TEST(DrafterChoiceTest, PatienceIsWhatTheTokensAreWorth) {
  Rounds rounds({{.accepted = 2, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  EXPECT_NEAR(absl::ToDoubleSeconds(rounds.choice.Patience(0, kPrice)), 0.02,
              0.001);
  EXPECT_EQ(rounds.choice.Patience(0, 0), absl::InfiniteDuration());
}

}  // namespace
}  // namespace espalier::coordinator
