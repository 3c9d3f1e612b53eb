#include "coordinator/control/answer_ledger.h"

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

constexpr double kPlain = 0.010;

TEST(AnswerLedgerTest, CountsWhatPlainDecodingWouldHaveTaken) {
  AnswerLedger ledger;
  EXPECT_NEAR(ledger.Enter(3, 0.018, kPlain), 0.012, 1e-12);
  EXPECT_NEAR(ledger.Enter(1, 0.015, kPlain), -0.005, 1e-12);
  EXPECT_NEAR(ledger.seconds(), 0.007, 1e-12);
  EXPECT_FALSE(ledger.is_behind());
}

TEST(AnswerLedgerTest, IsBehindAfterTwoTokensAndOnePercent) {
  AnswerLedger ledger;
  ledger.Emitted(50);
  ledger.Enter(1, 0.034, kPlain);  // 2.4 tokens
  EXPECT_FALSE(ledger.is_behind());
  ledger.Enter(1, 0.012, kPlain);
  EXPECT_TRUE(ledger.is_behind());
}

TEST(AnswerLedgerTest, CatchesUpByPlainDecodingOrByLuck) {
  AnswerLedger ledger;
  ledger.Enter(1, 0.0315, kPlain);
  EXPECT_TRUE(ledger.is_behind());
  AnswerLedger lucky = ledger;
  lucky.Enter(3, 0.020, kPlain);
  EXPECT_FALSE(lucky.is_behind());
  int tokens = 0;
  for (; ledger.is_behind() && tokens < 1000; ++tokens) ledger.Emitted(1);
  EXPECT_NEAR(tokens, 15, 1);
}

// What was won early may be risked later, and the price of each round is that
// of its time.
TEST(AnswerLedgerTest, WhatWasWonIsNotForgotten) {
  AnswerLedger ledger;
  for (int i = 0; i < 10; ++i) ledger.Enter(3, 0.020, kPlain);
  for (int i = 0; i < 11; ++i) ledger.Enter(1, 0.040, 2 * kPlain);
  EXPECT_FALSE(ledger.is_behind());
  ledger.Enter(1, 0.060, 2 * kPlain);
  EXPECT_TRUE(ledger.is_behind());
}

// What catching up took is owed for some rounds, less from round to round.
TEST(AnswerLedgerTest, CatchingUpIsOwedLonger) {
  AnswerLedger ledger;
  ledger.Enter(1, 6, 1);
  EXPECT_TRUE(ledger.is_behind());
  ledger.Advance(4);
  EXPECT_FALSE(ledger.is_behind());
  int rounds = 0;
  for (; !ledger.is_behind() && rounds < 100; ++rounds) ledger.Enter(1, 1, 1);
  EXPECT_NEAR(rounds, 10, 2);
}

}  // namespace
}  // namespace espalier::coordinator
