// How often drafters are asked that do not pay.
#include "coordinator/control/drafter_choice.h"
#include "gtest/gtest.h"

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
  DrafterChoice choice({DrafterValue(16)});
  DueRounds(choice, 200, /*gain=*/0);
  ASSERT_TRUE(choice.IsQuick(0, kPrice));
  EXPECT_EQ(DueRounds(choice, 800, /*gain=*/0), 100) << "0.005 tokens a round";
  EXPECT_GE(DueRounds(choice, 100, /*gain=*/1), 92) << "from the first on";
  EXPECT_EQ(DueRounds(choice, 10, /*gain=*/0.1), 10) << "it still pays";
}

TEST(DrafterTurnsTest, DraftersThatCostNothingAreAlwaysDue) {
  DrafterChoice choice({DrafterValue(16)});
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(choice.IsDue(0, kPrice));
    choice.Learn({{{.attention = DraftCall::Attention::kAwaited,
                    .waited = absl::ZeroDuration()}}},
                 kPrice);
  }
}

// A probe that has to catch up takes the verifier's cores for longer than an
// answer of a drafter that keeps up.
TEST(DrafterTurnsTest, ProbesThatCostMuchBecomeMuchRarer) {
  DrafterValue unasked(16);
  unasked.alone.Restart(0);
  unasked.beside.Restart(0);
  unasked.seconds.Restart(0.030);
  unasked.asked = false;
  DrafterChoice choice({unasked});
  const TokenTree tree = TokenTree::RootOnly(0);
  const DrafterReturn probed = {.attention = DraftCall::Attention::kAsked,
                                .compute = absl::Milliseconds(5),
                                .late = &tree,
                                .shares_verifier_cores = true};
  int64_t rounds = 0;
  for (int probes = 0; probes < 8; ++probes) {
    for (rounds = 0; !choice.Probes(0, kPrice) && rounds < 1000; ++rounds) {
      choice.Learn({{}}, kPrice);
    }
    choice.Learn({probed}, kPrice);
  }
  EXPECT_EQ(rounds, 128) << "half a token";
}

}  // namespace
}  // namespace espalier::coordinator
