#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/coordinator/control/rounds_of_drafters.h"

namespace espalier::coordinator {
namespace {

TEST(DrafterProbesTest, ProbesAreRare) {
  Rounds rounds({{.accepted = 0, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  ASSERT_FALSE(rounds.choice.asks(0));
  rounds.num_asked = 0;
  rounds.Run(32 * 10);
  EXPECT_LE(rounds.num_asked, 10);
  EXPECT_GE(rounds.num_asked, 9);
}

// Text that has changed once may change again.
TEST(DrafterProbesTest, ProbesComeSoonAgainAfterAChange) {
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
TEST(DrafterProbesTest, ProbesThatChangeNothingBecomeRarer) {
  Rounds rounds({{.accepted = 0, .takes = absl::Milliseconds(5)}});
  while (rounds.choice.asks(0)) rounds.Run(1);
  for (int wanted : {8, 16, 32, 32, 32}) {
    EXPECT_EQ(rounds.UntilProbe(0), wanted);
    rounds.Run(1);
  }
}

// It had to catch up first.
TEST(DrafterProbesTest, AProbeWaitsForATreeInTime) {
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
TEST(DrafterProbesTest, QuickOnesAreAlwaysAsked) {
  Rounds rounds({{.accepted = 0, .takes = absl::Microseconds(100)},
                 {.accepted = 0, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  EXPECT_TRUE(rounds.choice.asks(0));
  EXPECT_FALSE(rounds.choice.asks(1));
}

TEST(DrafterProbesTest, DoesNotProbeBesideWhoPredictsEnough) {
  Rounds rounds({{.accepted = 3, .takes = absl::Milliseconds(5)},
                 {.accepted = 3, .takes = absl::Milliseconds(30)}});
  rounds.Run(50);
  rounds.num_asked = 0;
  rounds.Run(160);
  EXPECT_EQ(rounds.num_asked, 160);
}

// Its value in earlier text fades, so one probe is enough.
TEST(DrafterProbesTest, AProbeCorrectsATimeOfABusyMachine) {
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

TEST(DrafterProbesTest, AProbeThatCatchesUpDoesNotRaiseATime) {
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

TEST(DrafterProbesTest, ComesBackAfterAProbe) {
  Rounds rounds({{.accepted = 0, .takes = absl::Milliseconds(5)}});
  rounds.Run(100);
  ASSERT_FALSE(rounds.choice.asks(0));
  rounds.habits[0].accepted = 3;
  rounds.num_asked = 0;
  while (rounds.num_asked == 0) rounds.Run(1);
  EXPECT_TRUE(rounds.choice.asks(0));
}

}  // namespace
}  // namespace espalier::coordinator
