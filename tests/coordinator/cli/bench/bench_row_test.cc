#include "coordinator/cli/bench/bench_row.h"

#include <vector>

#include "gtest/gtest.h"

namespace espalier::cli {
namespace {

TEST(Repetition, CountsFourGramsThatCameUpBefore) {
  // 1234 2341 3412 4123 1234: the last is a repetition.
  const std::vector<uint32_t> loop = {1, 2, 3, 4, 1, 2, 3, 4};
  EXPECT_EQ(CountRepetition(loop).repeated, 1);
  EXPECT_EQ(CountRepetition(loop).total, 5);
  EXPECT_EQ(CountRepetition({1, 2, 3}).total, 0);
  const std::vector<uint32_t> same(10, 7);
  EXPECT_EQ(CountRepetition(same).repeated, 6);
  EXPECT_EQ(CountRepetition(same).total, 7);
}

Answer MakeAnswer(uint32_t rounds, double tau) {
  Answer answer;
  answer.summary.mutable_spec_stats()->set_num_spec_steps(rounds);
  answer.summary.mutable_spec_stats()->set_mean_acceptance_length(tau);
  return answer;
}

TEST(BenchTally, TauIsTokensPerVerificationOfAllPromptsTogether) {
  BenchTally tally;
  tally.Add(MakeAnswer(/*rounds=*/10, /*tau=*/1), nullptr);
  tally.Add(MakeAnswer(/*rounds=*/30, /*tau=*/3), nullptr);
  BenchRow row;
  tally.Fill(row, nullptr);
  EXPECT_EQ(row.prompts, 2);
  EXPECT_EQ(row.rounds, 40);
  EXPECT_DOUBLE_EQ(row.tau, 2.5);  // not the mean of the means, 2
}

TEST(BenchTally, AcceptanceByDepthCountsWhatWentFurther) {
  Answer one = MakeAnswer(/*rounds=*/6, /*tau=*/1);
  for (uint32_t rounds : {3, 2, 1}) {
    one.summary.mutable_spec_stats()->add_acceptance_histogram(rounds);
  }
  Answer other = MakeAnswer(/*rounds=*/4, /*tau=*/1);
  other.summary.mutable_spec_stats()->add_acceptance_histogram(4);
  BenchTally tally;
  tally.Add(one, nullptr);
  tally.Add(other, nullptr);
  BenchRow row;
  tally.Fill(row, nullptr);
  EXPECT_EQ(row.accepted_at_depth, (std::vector<double>{0.3, 0.1}));
}

Answer TimedAnswer(int tokens, double ms) {
  Answer answer;
  answer.token_ids.resize(tokens + 1);
  answer.first_message_tokens = 1;
  answer.summary.mutable_timing()->set_total_ms(ms);
  return answer;
}

// Speedups without one of the prompts: 2 and 1. Leaving out one of two, the
// standard error is half of their distance.
TEST(BenchTally, TheErrorOfASpeedupFollowsFromThePrompts) {
  BenchTally plain, ours;
  for (double ms : {100, 100}) plain.Add(TimedAnswer(10, ms), nullptr);
  for (double ms : {50, 100}) ours.Add(TimedAnswer(10, ms), nullptr);
  BenchRow row;
  ours.Fill(row, &plain);
  EXPECT_DOUBLE_EQ(*row.speedup, 200.0 / 150);
  EXPECT_DOUBLE_EQ(*row.speedup_error, 0.5);
  EXPECT_TRUE(IsNoise(row));

  BenchTally sum = ours;
  sum.Add(ours);
  BenchRow all;
  sum.Fill(all, nullptr);
  EXPECT_EQ(all.prompts, 4);
  EXPECT_DOUBLE_EQ(*all.tokens_per_s, *row.tokens_per_s);
}

TEST(BenchTally, NothingAddedGivesZerosAndNoSpeed) {
  BenchRow row;
  BenchTally().Fill(row, nullptr);
  EXPECT_EQ(row.tau, 0);
  EXPECT_EQ(row.nodes_per_round, 0);
  EXPECT_EQ(row.repetition, 0);
  EXPECT_FALSE(row.tokens_per_s.has_value());
}

TEST(BenchRow, JsonKeepsShortTemperatures) {
  EXPECT_NE(ToJson(BenchRow{.temperature = 0.7f}).find("\"temperature\":0.7,"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier::cli
