#include "verifier/costs/measure_pass_costs.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/scripted_language_model.h"

namespace espalier::verifier {
namespace {

using absl::Milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// A model whose passes take the times that a test sets, on a clock that
// otherwise stands still.
class MeasurePassCostsTest : public ::testing::Test {
 protected:
  using Cost = std::function<double(int64_t rows)>;  // milliseconds

  absl::StatusOr<PassCosts> Measure(const Cost& cost, int64_t max_rows = 32,
                                    ScriptedLanguageModel::Options script = {
                                        .max_rows = 64}) {
    ScriptedLanguageModel model(script);
    model.set_pass_hook([&](absl::Span<const SequenceRows> batch) {
      const int64_t rows = static_cast<int64_t>(batch[0].tokens.size());
      if (batch[0].num_logit_rows == rows) passes_.push_back(rows);
      clock_.AdvanceBy(Milliseconds(cost(rows)));
      return status_;
    });
    const absl::Time begin = clock_.Now();
    auto measured = MeasurePassCosts(
        model, clock_,
        {.max_rows = max_rows, .time_budget = Milliseconds(500)});
    spent_ = clock_.Now() - begin;
    EXPECT_EQ(model.num_sequences(), 0);
    if (!measured.ok()) return measured.status();
    is_doubtful_ = measured->is_doubtful;
    return measured->costs;
  }

  static double Ms(const PassCosts& costs, int64_t rows) {
    return absl::ToDoubleMilliseconds(PassTime(costs, rows));
  }
  static std::vector<int64_t> Rows(const PassCosts& costs) {
    std::vector<int64_t> rows;
    for (const PassCost& cost : costs) rows.push_back(cost.rows);
    return rows;
  }

  FakeExecutor clock_;
  std::vector<int64_t> passes_;
  absl::Duration spent_;
  bool is_doubtful_ = false;
  absl::Status status_;
};

TEST_F(MeasurePassCostsTest, GivesWhatEachRowCountTakes) {
  const auto costs = Measure([](int64_t rows) { return 1 + 0.1 * rows; });
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_THAT(Rows(*costs), ElementsAre(1, 2, 4, 6, 7, 12, 13, 16, 17, 24, 32));
  for (const PassCost& cost : *costs) {
    EXPECT_NEAR(Ms(*costs, cost.rows), 1 + 0.1 * cost.rows, 1e-3);
  }
}

// Rows of a mixture that are alike go through the same experts.
TEST(TokensToTime, DifferAsFarAsThereAreSoMany) {
  for (int64_t vocab : {64, 258, 32000, 151936, 262144}) {
    const std::vector<TokenId> tokens = TokensToTime(64, 64, vocab);
    EXPECT_EQ(std::set<TokenId>(tokens.begin(), tokens.end()).size(), 64u);
    EXPECT_LT(*std::max_element(tokens.begin(), tokens.end()), vocab);
  }
  EXPECT_THAT(TokensToTime(3, 3, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(TokensToTime(4, 1, 64), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(TokensToTime(4, 2, 64)[2], 0);
}

// What a pass takes that reads so many milliseconds of each distinct token.
TEST_F(MeasurePassCostsTest, TheRowsThatAreTimedAreNotAlike) {
  ScriptedLanguageModel model({.max_rows = 64});
  model.set_pass_hook([&](absl::Span<const SequenceRows> batch) {
    const std::set<TokenId> distinct(batch[0].tokens.begin(),
                                     batch[0].tokens.end());
    clock_.AdvanceBy(Milliseconds(distinct.size()));
    return absl::OkStatus();
  });
  const auto measured = MeasurePassCosts(
      model, clock_, {.max_rows = 8, .time_budget = Milliseconds(500)});
  ASSERT_TRUE(measured.ok()) << measured.status();
  const int64_t vocab = model.info().config.vocab_size;
  EXPECT_NEAR(Ms(measured->costs, 7), std::min<int64_t>(7, vocab), 1e-3);
}

TEST_F(MeasurePassCostsTest, FindsTheStepsAtTheEdgesThatAModelNames) {
  const auto cost = [](int64_t rows) { return (rows + 15) / 16 * 2.0; };
  const auto costs =
      Measure(cost, 50, {.max_rows = 64, .row_edges = {1, 16, 32, 64}});
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_THAT(Rows(*costs), ElementsAre(1, 2, 16, 17, 32, 33));
  for (int64_t rows : {1, 9, 16, 17, 30, 32, 33}) {
    EXPECT_NEAR(Ms(*costs, rows), cost(rows), 1e-3) << rows;
  }
}

TEST_F(MeasurePassCostsTest, TakesTheBestOfSeveralAndNotTheFirst) {
  int pass = 0;
  const auto costs =
      Measure([&](int64_t) { return pass++ % 5 == 0 ? 20.0 : 2.0; });
  ASSERT_TRUE(costs.ok());
  for (const PassCost& cost : *costs) EXPECT_EQ(cost.time, Milliseconds(2));
}

TEST_F(MeasurePassCostsTest, WhatMoreRowsTookIsEnoughForFewer) {
  const auto costs =
      Measure([](int64_t rows) { return rows == 4 || rows == 6 ? 9.0 : 5.0; });
  ASSERT_TRUE(costs.ok());
  for (const PassCost& cost : *costs) EXPECT_EQ(cost.time, Milliseconds(5));
}

// Half of the passes share their cores with other processes.
TEST_F(MeasurePassCostsTest, ADisturbanceLeavesTheTableNearTheTruth) {
  const auto truth = [](int64_t rows) { return 10 + 1.5 * rows; };
  std::mt19937 random(5);
  for (int run = 0; run < 50; ++run) {
    const auto costs = Measure([&](int64_t rows) {
      return truth(rows) * (random() % 2 == 0 ? 2 : 1);
    });
    ASSERT_TRUE(costs.ok());
    absl::Duration fewer;
    for (const PassCost& cost : *costs) {
      EXPECT_GE(cost.time, fewer) << cost.rows;
      fewer = cost.time;
      EXPECT_LE(Ms(*costs, cost.rows), 3 * truth(cost.rows)) << cost.rows;
      EXPECT_GE(Ms(*costs, cost.rows), 0.9 * truth(cost.rows)) << cost.rows;
    }
  }
}

TEST_F(MeasurePassCostsTest, IsDoubtfulIfPassesOfTheSameRowsDiffer) {
  ASSERT_TRUE(Measure([](int64_t rows) { return 1 + 0.1 * rows; }).ok());
  EXPECT_FALSE(is_doubtful_);
  int pass = 0;
  ASSERT_TRUE(
      Measure([&](int64_t) { return ++pass % 3 == 0 ? 9.0 : 3.0; }).ok());
  EXPECT_TRUE(is_doubtful_);
}

// As every pass takes long, few are timed twice.
TEST_F(MeasurePassCostsTest, IsDoubtfulWhereThereWasNoTime) {
  ASSERT_TRUE(Measure([](int64_t rows) { return 111.0 * rows; }).ok());
  EXPECT_TRUE(is_doubtful_);
}

TEST_F(MeasurePassCostsTest, UsesTheTimeItMayTake) {
  ASSERT_TRUE(Measure([](int64_t rows) { return 10.0 + rows; }).ok());
  EXPECT_LE(spent_, Milliseconds(500));
  EXPECT_GE(spent_, Milliseconds(450));
}

TEST_F(MeasurePassCostsTest, EndsOnceEachRowCountWasTimedOften) {
  ASSERT_TRUE(Measure([](int64_t rows) { return 0.1 + 0.01 * rows; }).ok());
  EXPECT_LE(spent_, Milliseconds(250));
  for (int64_t rows : {1, 17, 32}) {
    EXPECT_GE(std::count(passes_.begin(), passes_.end(), rows), 16) << rows;
  }
}

TEST_F(MeasurePassCostsTest, ASlowModelIsExtrapolatedWithinTheBudget) {
  const auto costs = Measure([](int64_t rows) { return 70.0 + rows; });
  ASSERT_TRUE(costs.ok());
  EXPECT_LE(spent_, Milliseconds(500));
  EXPECT_THAT(passes_, Not(Contains(16)));
  EXPECT_EQ(Rows(*costs).back(), 32);
  EXPECT_NEAR(Ms(*costs, 32), 102, 1);
}

// Passes with logits for some of their rows fill the prefix.
TEST_F(MeasurePassCostsTest, RowsHaveAPrefixIfThereIsTime) {
  int64_t prefix = 0;
  const auto cost = [](int64_t rows) { return 1.0 + 0.01 * rows; };
  ScriptedLanguageModel model({.max_context = 1000, .max_rows = 64});
  model.set_pass_hook([&](absl::Span<const SequenceRows> batch) {
    clock_.AdvanceBy(Milliseconds(cost(batch[0].tokens.size())));
    prefix = std::max(prefix, model.Length(batch[0].cache));
    return absl::OkStatus();
  });
  ASSERT_TRUE(MeasurePassCosts(model, clock_, {.max_rows = 8}).ok());
  EXPECT_EQ(prefix, 63);  // 1 + 2 + ... + 32
}

TEST_F(MeasurePassCostsTest, OneRowAloneGoesBeyondTheBudget) {
  const auto costs = Measure([](int64_t) { return 1000.0; });
  ASSERT_TRUE(costs.ok());
  EXPECT_THAT(passes_, ElementsAre(1, 1, 1));
  EXPECT_EQ(Ms(*costs, 1), 1000);
  EXPECT_EQ(Ms(*costs, 4), 4000);  // no better estimate exists
}

TEST_F(MeasurePassCostsTest, StaysWithinWhatModelAndOptionsAllow) {
  const auto one = [](int64_t) { return 1.0; };
  EXPECT_THAT(Rows(*Measure(one, /*max_rows=*/11)), ElementsAre(1, 2, 4, 6, 7));
  EXPECT_THAT(Rows(*Measure(one, 32, {.max_rows = 5})), ElementsAre(1, 2, 4));
  EXPECT_THAT(Rows(*Measure(one, 32, {.max_context = 3})), ElementsAre(1, 2));
}

TEST_F(MeasurePassCostsTest, ASmallPoolBoundsTheRowsThatAreMeasured) {
  const auto costs = Measure([](int64_t rows) { return 1.0 * rows; }, 32,
                             {.max_rows = 64, .pool_tokens = 10});
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_GE(Rows(*costs).back(), 6);
  EXPECT_LE(Rows(*costs).back(), 10);
}

TEST_F(MeasurePassCostsTest, AModelThatCannotRunIsAnError) {
  status_ = absl::UnknownError("device lost");
  EXPECT_EQ(Measure([](int64_t) { return 1.0; }).status(), status_);
}

}  // namespace
}  // namespace espalier::verifier
