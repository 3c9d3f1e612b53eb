#include "coordinator/control/plain_pace.h"

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

// Returns a round that takes `seconds` where the verifier expects `pass`.
PlainPace Measured(double seconds, double pass) {
  PlainPace pace;
  for (int i = 0; i < 8; ++i)
    pace.Observe(seconds, {.expected = pass, .took = pass});
  return pace;
}

TEST(PlainPaceTest, IsThatOfThePassUntilItIsMeasured) {
  const PlainPace pace;
  EXPECT_EQ(pace.Seconds(0.005), 0.005);
  EXPECT_EQ(pace.Seconds(0), 0);
  EXPECT_TRUE(pace.IsStale(0.005));
}

// The machine is busy: the pass is the smaller part.
TEST(PlainPaceTest, HopsAndWakeUpsAreInIt) {
  const PlainPace pace = Measured(0.009, 0.005);
  EXPECT_NEAR(pace.Seconds(0.005), 0.009, 1e-9);
  EXPECT_FALSE(pace.IsStale(0.005));
}

TEST(PlainPaceTest, TheRestIsWithoutThePass) {
  PlainPace pace;
  EXPECT_EQ(pace.RestSeconds(), 0);
  pace.Observe(0.010, {.expected = 0.006, .took = 0.007});
  pace.Observe(0.014, {.expected = 0.006, .took = 0.009});
  EXPECT_NEAR(pace.RestSeconds(), 0.004, 1e-9);
}

TEST(PlainPaceTest, FollowsThePassDownwardsBetweenMeasurements) {
  const PlainPace pace = Measured(0.009, 0.005);
  EXPECT_NEAR(pace.Seconds(0.004), 0.008, 1e-9);
  EXPECT_FALSE(pace.IsStale(0.004));
}

// Rounds with drafts have slower passes, which plain decoding would not have.
TEST(PlainPaceTest, DoesNotFollowThePassUpwards) {
  const PlainPace pace = Measured(0.009, 0.005);
  EXPECT_NEAR(pace.Seconds(0.006), 0.009, 1e-9);
  EXPECT_FALSE(pace.IsStale(0.006));
  EXPECT_TRUE(pace.IsStale(0.009)) << "the machine may have become slower";
}

// A table that was measured on a busy machine, and its correction.
TEST(PlainPaceTest, IsMeasuredAgainWhenTheVerifierThinksDifferently) {
  PlainPace pace = Measured(0.0055, 0.111);
  EXPECT_NEAR(pace.Seconds(0.111), 0.0055, 1e-9);
  EXPECT_TRUE(pace.IsStale(0.005));
  EXPECT_GT(pace.Seconds(0.005), 0.001);
  pace.Observe(0.0056, {.expected = 0.005, .took = 0.005});
  EXPECT_NEAR(pace.Seconds(0.005), 0.0056, 1e-9);
}

TEST(PlainPaceTest, IsMeasuredAgainAfterManyOtherRounds) {
  PlainPace pace = Measured(0.009, 0.005);
  int rounds = 0;
  for (; !pace.IsStale(0.005) && rounds < 10000; ++rounds)
    pace.Fade(/*rest_seconds=*/0.002);
  EXPECT_GT(rounds, 200);
  EXPECT_LT(rounds, 1000);
}

// A busy machine becomes quiet, and all rounds speculate.
TEST(PlainPaceTest, IsMeasuredAgainWhenOtherRoundsChange) {
  PlainPace pace = Measured(0.009, 0.005);
  for (int i = 0; i < 50; ++i) pace.Fade(0.006);
  EXPECT_FALSE(pace.IsStale(0.005)) << "rows may cost more than is thought";
  for (int i = 0; i < 50; ++i) pace.Fade(0.002);
  EXPECT_TRUE(pace.IsStale(0.005));
  EXPECT_NEAR(pace.Seconds(0.005), 0.009, 1e-9);
  for (int i = 0; i < 4; ++i)
    pace.Observe(0.0055, {.expected = 0.005, .took = 0.005});
  EXPECT_NEAR(pace.Seconds(0.005), 0.0055, 1e-9);
  for (int i = 0; i < 50; ++i) pace.Fade(0.002);
  EXPECT_FALSE(pace.IsStale(0.005));
}

// The rounds after the start, on a machine that becomes quicker: the verifier's
// estimate is still too low in them, and falls to what passes take.
TEST(PlainPaceTest, FollowsFromWhatThePassesTook) {
  PlainPace pace;
  for (int i = 0; i < 8; ++i) {
    pace.Observe(0.006, {.expected = 0.0035, .took = 0.0055});
  }
  EXPECT_NEAR(pace.Seconds(0.0025), 0.003, 1e-9);
}

TEST(PlainPaceTest, OneRoundThatWasHeldUpDoesNotDecide) {
  PlainPace pace = Measured(0.010, 0.005);
  pace.Observe(100, {.expected = 0.005, .took = 0.005});
  EXPECT_LT(pace.Seconds(0.005), 0.015);
}

TEST(PlainPaceTest, AnotherSessionSoonBelievesItsOwnRounds) {
  PlainPace others;
  for (int i = 0; i < 100; ++i)
    others.Observe(0.010, {.expected = 0.005, .took = 0.005});
  PlainPace own = others.Recalled();
  EXPECT_FALSE(own.IsStale(0.005));
  for (int i = 0; i < 16; ++i)
    own.Observe(0.020, {.expected = 0.005, .took = 0.005});
  EXPECT_GT(own.Seconds(0.005), 0.015);
}

}  // namespace
}  // namespace espalier::coordinator
