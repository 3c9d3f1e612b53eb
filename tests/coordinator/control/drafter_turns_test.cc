// How often drafters are asked that do not pay.
#include "gtest/gtest.h"
#include "tests/coordinator/control/choice_with_budget.h"

namespace espalier::coordinator {
namespace {

constexpr double kPrice = 100;  // tokens a second

// Runs rounds with one quick drafter that costs 0.04 tokens, and returns in how
// many of them it is due.
int DueRounds(DrafterChoice& choice, int rounds, double gain) {
  int due = 0;
  for (int i = 0; i < rounds; ++i) {
    DrafterReturn r;
    if (choice.IsDue(0, kPrice)) {
      ++due;
      r = {.attention = DraftCall::Attention::kAwaited,
           .waited = absl::Microseconds(400),
           .gain = {.alone = gain, .beside = gain}};
    }
    choice.Learn({r}, kPrice);
  }
  return due;
}

TEST(DrafterTurnsTest, QuickDraftersThatDoNotPayTakeTurns) {
  ChoiceWithBudget choice({DrafterValue(16)});
  DueRounds(choice, 200, /*gain=*/0);
  ASSERT_TRUE(choice.IsQuick(0, kPrice));
  EXPECT_EQ(DueRounds(choice, 700, /*gain=*/0), 50) << "0.003 tokens a round";
  EXPECT_GE(DueRounds(choice, 100, /*gain=*/1), 92) << "from the first on";
  EXPECT_EQ(DueRounds(choice, 10, /*gain=*/0.1), 10) << "it still pays";
}

TEST(DrafterTurnsTest, DraftersThatCostNothingAreAlwaysDue) {
  ChoiceWithBudget choice({DrafterValue(16)});
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(choice.IsDue(0, kPrice));
    choice.Learn({{{.attention = DraftCall::Attention::kAwaited,
                    .waited = absl::ZeroDuration()}}},
                 kPrice);
  }
}

// Each knows at once what the other's probe costs.
TEST(DrafterTurnsTest, SessionsShareOneBudgetOfProbes) {
  DrafterValue unasked(16);
  unasked.asked = false;
  unasked.shared_seconds.Restart(0.010);
  unasked.probe.rounds = 100;
  Budgets probes(1);
  probes.Spend(0.5);
  DrafterChoice first({unasked}, probes.Borrow());
  DrafterChoice second({unasked}, probes.Borrow());
  EXPECT_TRUE(second.Probes(0, kPrice));
  EXPECT_TRUE(first.Probes(0, kPrice));
  first.BeginProbe(0, kPrice);
  EXPECT_FALSE(second.Probes(0, kPrice));
  probes.Earn(0.4 * 256);
  EXPECT_FALSE(second.Probes(0, kPrice));
  probes.Earn(0.2 * 256);
  EXPECT_TRUE(second.Probes(0, kPrice)) << "a probe costs one token";
}

class UnaskedDrafterTest : public ::testing::Test {
 protected:
  UnaskedDrafterTest() {
    value_.alone.Restart(0);
    value_.beside.Restart(0);
    value_.seconds.Restart(0.030);
    value_.asked = false;
  }
  // Rounds that emit a token each, until a probe is due.
  static int64_t RoundsToProbe(ChoiceWithBudget& choice) {
    int64_t rounds = 0;
    for (; !choice.Probes(0, kPrice) && rounds < 1000; ++rounds) {
      choice.Earn(1);
      choice.Learn({{}}, kPrice);
    }
    return rounds;
  }

  DrafterValue value_{16};
  const TokenTree tree_ = TokenTree::RootOnly(0);
  const DrafterReturn probed_ = {.attention = DraftCall::Attention::kAsked,
                                 .compute = absl::Milliseconds(5),
                                 .late = &tree_,
                                 .shares_verifier_cores = true};
};

// A probe that has to catch up takes the verifier's cores for longer than an
// answer of a drafter that keeps up.
TEST_F(UnaskedDrafterTest, ProbesThatCostMuchBecomeMuchRarer) {
  ChoiceWithBudget choice({value_});
  int64_t rounds = 0;
  for (int probes = 0; probes < 16; ++probes) {
    rounds = RoundsToProbe(choice);
    choice.BeginProbe(0, kPrice);
    choice.Learn({probed_}, kPrice);
  }
  EXPECT_EQ(rounds, 128) << "half a token";
}

TEST_F(UnaskedDrafterTest, RestsUntilTheNextProbe) {
  value_.probe.rounds = 3;
  ChoiceWithBudget choice({value_});
  EXPECT_EQ(choice.RoundsToRest(kPrice), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(choice.Probes(0, kPrice)) << i;
    choice.LearnRest();
  }
  EXPECT_TRUE(choice.Probes(0, kPrice));
  EXPECT_EQ(choice.RoundsToRest(kPrice), 0);
}

TEST(DrafterTurnsTest, RestsUntilTheNextTurn) {
  ChoiceWithBudget choice({DrafterValue(16)});
  DueRounds(choice, 200, /*gain=*/0);
  while (!choice.IsDue(0, kPrice)) choice.LearnRest();
  EXPECT_EQ(choice.RoundsToRest(kPrice), 0);
  DueRounds(choice, 1, /*gain=*/0);
  EXPECT_EQ(choice.RoundsToRest(kPrice), 13);
  for (int i = 0; i < 13; ++i) {
    EXPECT_FALSE(choice.IsDue(0, kPrice)) << i;
    choice.LearnRest();
  }
  EXPECT_TRUE(choice.IsDue(0, kPrice));
}

TEST(DrafterTurnsTest, DoesNotRestWhereADrafterPays) {
  DrafterValue good(16);
  good.alone.Restart(2);
  good.seconds.Restart(0.005);
  ChoiceWithBudget choice({good});
  EXPECT_EQ(choice.RoundsToRest(kPrice), 0);
}

}  // namespace
}  // namespace espalier::coordinator
