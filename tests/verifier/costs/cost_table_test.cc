#include "verifier/costs/cost_table.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

using absl::Milliseconds;
using ::testing::IsEmpty;

double Ms(const CostTable& table, int64_t rows) {
  return absl::ToDoubleMilliseconds(PassTime(table.points(), rows));
}

CostTable SomeTable() {
  return CostTable({{1, Milliseconds(6)},
                    {8, Milliseconds(6.4)},
                    {16, Milliseconds(7.2)},
                    {32, Milliseconds(12.5)}});
}

TEST(CostTable, TimesThatFallGiveWayToEachOther) {
  const CostTable table(
      {{1, Milliseconds(6)}, {8, Milliseconds(5)}, {16, Milliseconds(7)}});
  EXPECT_NEAR(Ms(table, 1), std::sqrt(6 * 5), 0.001);
  EXPECT_EQ(Ms(table, 8), Ms(table, 1));
  EXPECT_EQ(Ms(table, 16), 7);
}

TEST(CostTable, FollowsWhatPassesTake) {
  CostTable table = SomeTable();
  for (int i = 0; i < 200; ++i) table.Observe(8, Milliseconds(9));
  EXPECT_NEAR(Ms(table, 8), 9, 0.01);
  for (int i = 0; i < 200; ++i) table.Observe(12, Milliseconds(20));
  EXPECT_NEAR(Ms(table, 12), 20, 0.01);
}

TEST(CostTable, OneOddPassMovesItLittle) {
  for (absl::Duration odd : {absl::Seconds(1), absl::Nanoseconds(1)}) {
    CostTable table = SomeTable();
    for (int i = 0; i < 20; ++i) table.Observe(8, Milliseconds(6.4));
    table.Observe(8, odd);
    EXPECT_LE(Ms(table, 8), 6.4 * 1.1);
    EXPECT_GE(Ms(table, 8), 6.4 * 0.85);
  }
}

// The machine behaves as if it were busy at that time.
TEST(CostTable, AFewPassesCorrectWhatWasMeasuredAtStart) {
  CostTable table(
      {{1, Milliseconds(6)}, {8, Milliseconds(12)}, {16, Milliseconds(12)}});
  for (int i = 0; i < 4; ++i) {
    table.Observe(8, Milliseconds(6.5));
    table.Observe(1, Milliseconds(6));
  }
  EXPECT_NEAR(Ms(table, 8), 6.5, 0.5);
  EXPECT_NEAR(Ms(table, 1), 6, 0.5);
  for (int i = 0; i < 8; ++i) table.Observe(16, Milliseconds(20));
  EXPECT_NEAR(Ms(table, 16), 20, 2);
}

TEST(CostTable, WhatIsNotRunBecomesDoubtful) {
  CostTable table = SomeTable();
  const PassCosts points = table.points();
  for (int i = 0; i < 3; ++i) {
    for (const PassCost& point : points) {
      table.Observe(point.rows, point.time);
    }
  }
  const double before = table.Doubt(3);
  for (int i = 0; i < 3000; ++i) table.Observe(1, Milliseconds(6));
  EXPECT_GT(table.Doubt(3), 1.2 * before);
  EXPECT_LT(table.Doubt(0), before);
}

TEST(CostTable, ASlowMachineMovesRowCountsThatWereNotRunToo) {
  CostTable table = SomeTable();
  for (int i = 0; i < 10; ++i) table.Observe(16, Milliseconds(7.2));
  for (int i = 0; i < 200; ++i) table.Observe(16, Milliseconds(14.4));
  EXPECT_NEAR(Ms(table, 16), 14.4, 0.01);
  EXPECT_GT(Ms(table, 1), 6 * 1.3);
  EXPECT_GT(Ms(table, 32), 12.5 * 1.3);
}

// Reading weights and multiplying them become slow apart: the medians of 1 and
// of 5 rows of a real machine hardly correlate (tests/benchmark/README.md).
TEST(CostTable, SlowSingleRowsSayLittleOfManyRowsForLong) {
  CostTable table = SomeTable();
  for (int i = 0; i < 20; ++i) {
    for (int64_t rows : {1, 8, 16, 32}) {
      table.Observe(rows, PassTime(table.points(), rows));
    }
  }
  const double before = Ms(table, 16);
  for (int i = 0; i < 1500; ++i) {
    table.Observe(1, Milliseconds(6 * (1 + 0.0002 * i)));
  }
  EXPECT_NEAR(Ms(table, 1), 7.8, 0.1);
  EXPECT_LT(Ms(table, 16) / before, 1.2);
}

TEST(CostTable, FindsTheTruthFromPassesOfAllSizes) {
  const auto truth = [](int64_t rows) {
    return Milliseconds(10 + 0.5 * static_cast<double>(rows));
  };
  CostTable table = SomeTable();
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    const int64_t rows = 1 + random() % 32;
    table.Observe(rows, truth(rows));
  }
  for (int64_t rows : {1, 8, 16, 32}) {
    const double expected = absl::ToDoubleMilliseconds(truth(rows));
    EXPECT_NEAR(Ms(table, rows), expected, 0.05 * expected) << rows;
  }
}

TEST(CostTable, IsMonotoneWhateverItSees) {
  CostTable table = SomeTable();
  std::mt19937 random(4);
  for (int i = 0; i < 5000; ++i) {
    table.Observe(1 + random() % 50, absl::Microseconds(random() % 40000));
    for (size_t p = 1; p < table.points().size(); ++p) {
      ASSERT_LE(table.points()[p - 1].time, table.points()[p].time);
    }
    ASSERT_GT(table.points()[0].time, absl::ZeroDuration());
  }
}

TEST(CostTable, AMeasurementThatWasTooHighAtOneRowDoesNotStay) {
  CostTable table({{1, Milliseconds(20)}, {16, Milliseconds(20)}});
  for (int i = 0; i < 300; ++i) table.Observe(16, Milliseconds(7));
  EXPECT_NEAR(Ms(table, 16), 7, 0.01);
  EXPECT_LE(Ms(table, 1), 7.01);
}

TEST(CostTable, WithoutPointsOrWithoutTimeLearnsNothing) {
  CostTable empty;
  empty.Observe(3, Milliseconds(1));
  EXPECT_THAT(empty.points(), IsEmpty());
  CostTable table = SomeTable();
  table.Observe(8, absl::ZeroDuration());
  EXPECT_EQ(Ms(table, 8), 6.4);
}

}  // namespace
}  // namespace espalier::verifier
