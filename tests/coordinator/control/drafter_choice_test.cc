#include "coordinator/control/drafter_choice.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/coordinator/control/choice_with_budget.h"

namespace espalier::coordinator {
namespace {

constexpr double kPrice = 100;  // tokens a second

struct Habit {
  int64_t accepted = 0;
  absl::Duration takes;
  uint64_t cpu_group = 0;
  bool shares_verifier_cores = false;
};

// Rounds in which each drafter always behaves the same.
class Rounds {
 public:
  explicit Rounds(std::vector<Habit> all)
      : habits(std::move(all)),
        choice(std::vector<DrafterValue>(habits.size(), DrafterValue(16))) {}

  void Run(int rounds) {
    for (int i = 0; i < rounds; ++i) RunOne(/*probe_all=*/false);
  }
  // A round in which all drafters answer.
  void Probe() { RunOne(/*probe_all=*/true); }
  // Rounds until the drafter, which is not asked, is probed.
  int UntilProbe(int drafter) {
    int rounds = 0;
    for (; !choice.Probes(drafter, price()) && rounds < 10000; ++rounds) Run(1);
    return rounds;
  }
  DrafterChoice::TimePrice price() const { return {kPrice, other_sessions}; }

  std::vector<Habit> habits;
  ChoiceWithBudget choice;
  double other_sessions = 0;
  int num_asked = 0;

 private:
  void RunOne(bool probe_all) {
    std::vector<DrafterReturn> returns;
    for (size_t d = 0; d < habits.size(); ++d) {
      DrafterReturn& r = returns.emplace_back();
      r.cpu_group = habits[d].cpu_group;
      r.shares_verifier_cores = habits[d].shares_verifier_cores;
      const bool probed = probe_all || choice.Probes(d, price());
      if (probed) choice.BeginProbe(d, price());
      if (!choice.asks(d) && !probed) continue;
      ++num_asked;
      r.attention = choice.asks(d) ? DraftCall::Attention::kAwaited
                                   : DraftCall::Attention::kAsked;
      r.accepted = habits[d].accepted;
      if (!choice.asks(d)) r.late = &late;
      r.gain = GainOf(d);
      r.waited = habits[d].takes;
      r.compute = habits[d].takes;
    }
    choice.Earn(1 + other_sessions);
    choice.Learn(returns, price());
  }

  // Gain if verification costs nothing.
  TreeGain GainOf(size_t drafter) const {
    int64_t others = 0;
    for (size_t d = 0; d < habits.size(); ++d) {
      if (d == drafter || !choice.asks(d)) continue;
      others = std::max(others, habits[d].accepted);
    }
    const int64_t own = habits[drafter].accepted;
    return {.alone = static_cast<double>(own),
            .beside = static_cast<double>(std::max<int64_t>(0, own - others))};
  }

  const TokenTree late = TokenTree::RootOnly(0);
};

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

// A value of which four observations were made.
DrafterValue ValueOf(double alone, double beside, double seconds) {
  DrafterValue value(16);
  value.alone.Restart(alone);
  value.beside.Restart(beside);
  value.seconds.Restart(seconds);
  return value;
}

DrafterReturn AskedReturn(TreeGain gain, absl::Duration waited) {
  return {.attention = DraftCall::Attention::kAwaited,
          .waited = waited,
          .compute = waited,
          .gain = gain};
}

// As many rounds as lie between two changes.
void LearnUntilChange(DrafterChoice& choice,
                      const std::vector<DrafterReturn>& returns) {
  for (int i = 0; i < 4; ++i) choice.Learn(returns, kPrice);
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

TEST(DrafterChoiceTest, ProbesAreRare) {
  Rounds rounds({{.accepted = 0, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  ASSERT_FALSE(rounds.choice.asks(0));
  rounds.num_asked = 0;
  rounds.Run(32 * 10);
  EXPECT_LE(rounds.num_asked, 10);
  EXPECT_GE(rounds.num_asked, 9);
}

// Text that has changed once may change again.
TEST(DrafterChoiceTest, ProbesComeSoonAgainAfterAChange) {
  ChoiceWithBudget choice({ValueOf(0, 0, 0.030)});
  const DrafterReturn wrong = AskedReturn({}, absl::Milliseconds(30));
  LearnUntilChange(choice, {wrong});
  ASSERT_FALSE(choice.asks(0));
  const TokenTree tree = TokenTree::RootOnly(0);
  DrafterReturn probed = {.attention = DraftCall::Attention::kAsked,
                          .late = &tree};
  const auto next_probe = [&] {
    int rounds = 0;
    for (; !choice.Probes(0, kPrice); ++rounds) choice.Learn({{}}, kPrice);
    return rounds;
  };
  EXPECT_EQ(next_probe(), 8);
  choice.Learn({probed}, kPrice);
  EXPECT_EQ(next_probe(), 16);
  probed.gain = {20, 20};
  choice.Learn({probed}, kPrice);
  ASSERT_TRUE(choice.asks(0)) << "the probe found it good";
  while (choice.asks(0)) choice.Learn({wrong}, kPrice);
  EXPECT_EQ(next_probe(), 8);
}

// It is probed soon after the round in which it was dropped, in case it was
// bad luck.
TEST(DrafterChoiceTest, ProbesThatChangeNothingBecomeRarer) {
  Rounds rounds({{.accepted = 0, .takes = absl::Milliseconds(5)}});
  while (rounds.choice.asks(0)) rounds.Run(1);
  for (int wanted : {8, 16, 32, 32, 32}) {
    EXPECT_EQ(rounds.UntilProbe(0), wanted);
    rounds.Run(1);
  }
}

// It had to catch up first.
TEST(DrafterChoiceTest, AProbeWaitsForATreeInTime) {
  DrafterValue unasked(16);
  unasked.asked = false;
  unasked.probe.rounds = 100;
  const TokenTree late = TokenTree::RootOnly(0);
  for (int answered_after : {1, 2, 4, 9}) {
    ChoiceWithBudget choice({unasked});
    int tries = 0;
    for (; choice.Probes(0, kPrice); ++tries) {
      const bool answers = tries + 1 == answered_after;
      choice.Learn({{.attention = DraftCall::Attention::kAsked,
                     .late = answers ? &late : nullptr}},
                   kPrice);
    }
    EXPECT_EQ(tries, std::min(answered_after, 4));
  }
}

// Their rare predictions may gain much.
TEST(DrafterChoiceTest, QuickOnesAreAlwaysAsked) {
  Rounds rounds({{.accepted = 0, .takes = absl::Microseconds(100)},
                 {.accepted = 0, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  EXPECT_TRUE(rounds.choice.asks(0));
  EXPECT_FALSE(rounds.choice.asks(1));
}

TEST(DrafterChoiceTest, DoesNotProbeBesideWhoForetellsEnough) {
  Rounds rounds({{.accepted = 3, .takes = absl::Milliseconds(5)},
                 {.accepted = 3, .takes = absl::Milliseconds(30)}});
  rounds.Run(50);
  rounds.num_asked = 0;
  rounds.Run(160);
  EXPECT_EQ(rounds.num_asked, 160);
}

// Its value in earlier text fades, so one probe is enough.
TEST(DrafterChoiceTest, AProbeCorrectsATimeOfABusyMachine) {
  DrafterValue dropped = ValueOf(/*alone=*/1, /*beside=*/1, /*seconds=*/0.100);
  dropped.shared_seconds.Restart(0.100);
  dropped.asked = false;
  ChoiceWithBudget choice({dropped});
  const TokenTree tree = TokenTree::RootOnly(0);
  DrafterReturn probed = {.attention = DraftCall::Attention::kAsked,
                          .compute = absl::Milliseconds(4),
                          .late = &tree,
                          .gain = {.alone = 1, .beside = 1},
                          .shares_verifier_cores = true};
  const auto learn = [&] { choice.Learn({&probed, 1}, 100); };
  learn();
  EXPECT_NEAR(choice.values()[0].seconds.mean(), 0.0808, 1e-9);
  for (int i = 0; i < 20; ++i) learn();
  EXPECT_LT(choice.values()[0].seconds.mean(), 0.006);
  EXPECT_LT(choice.values()[0].shared_seconds.mean(), 0.006);
  EXPECT_TRUE(choice.asks(0));
}

TEST(DrafterChoiceTest, AProbeThatCatchesUpDoesNotRaiseATime) {
  DrafterValue dropped = ValueOf(/*alone=*/0, /*beside=*/0, /*seconds=*/0.005);
  dropped.asked = false;
  ChoiceWithBudget choice({dropped});
  const TokenTree tree = TokenTree::RootOnly(0);
  const DrafterReturn probed = {.attention = DraftCall::Attention::kAsked,
                                .compute = absl::Milliseconds(40),
                                .late = &tree};
  choice.Learn({&probed, 1}, 100);
  EXPECT_EQ(choice.values()[0].seconds.mean(), 0.005);
}

TEST(DrafterChoiceTest, ComesBackAfterAProbe) {
  Rounds rounds({{.accepted = 0, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  ASSERT_FALSE(rounds.choice.asks(0));
  rounds.habits[0].accepted = 3;
  rounds.num_asked = 0;
  while (rounds.num_asked == 0) rounds.Run(1);
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
