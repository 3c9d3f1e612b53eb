#include "coordinator/cli/bench/load_row.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "coordinator/cli/bench/load_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::cli {
namespace {

constexpr absl::Duration kMs = absl::Milliseconds(1);

TEST(Percentiles, AreOfTheNearestRank) {
  std::vector<absl::Duration> samples;
  for (int i = 100; i > 0; --i) samples.push_back(i * kMs);
  const Percentiles percentiles = PercentilesOf(samples);
  EXPECT_DOUBLE_EQ(percentiles.p50, 50);
  EXPECT_DOUBLE_EQ(percentiles.p95, 95);
  EXPECT_DOUBLE_EQ(percentiles.p99, 99);
  EXPECT_DOUBLE_EQ(PercentilesOf({7 * kMs}).p50, 7);
  EXPECT_DOUBLE_EQ(PercentilesOf({}).p99, 0);
}

// Eleven tokens in two messages: 10 ms to the first, `per_token` for the rest.
LoadSample Answered(absl::Duration per_token) {
  return {.first_token = 10 * kMs,
          .total = 10 * kMs + 10 * per_token,
          .gaps = {10 * per_token},
          .tokens = 11,
          .rounds = 5};
}

TEST(LoadRow, GoodputCountsWhatMetTheTarget) {
  const LoadSample failed = {.status = absl::InternalError("bug")};
  LoadSample refused = {.status = absl::ResourceExhaustedError("full")};
  refused.total = kMs;
  const LoadRow row = Summarize(
      {Answered(4 * kMs), Answered(6 * kMs), refused, failed}, absl::Seconds(2),
      {.first_token = 10 * kMs, .per_token = 5 * kMs});
  EXPECT_EQ(row.requests, 4);
  EXPECT_EQ(row.refused, 1);
  EXPECT_EQ(row.failed, 1);
  EXPECT_EQ(row.good, 1);
  EXPECT_DOUBLE_EQ(row.goodput, 0.5);
  EXPECT_DOUBLE_EQ(row.tokens_per_s, 11);
  EXPECT_DOUBLE_EQ(row.tau, 2.2);
  EXPECT_DOUBLE_EQ(row.per_token_ms.p50, 4);
  EXPECT_DOUBLE_EQ(row.per_token_ms.p99, 6);
  EXPECT_DOUBLE_EQ(row.total_ms.p50, 50);
  EXPECT_DOUBLE_EQ(row.refused_ms.p99, 1);
}

TEST(LoadRow, NothingAnsweredGivesZeros) {
  const LoadRow row = Summarize({}, absl::ZeroDuration(), {});
  EXPECT_EQ(row.tau, 0);
  EXPECT_EQ(row.goodput, 0);
}

// 80 columns, whatever the number of modes and the speed of the server.
TEST(LoadTable, NoLineIsLongerThanATerminal) {
  const Percentiles slow = {.p50 = 59999, .p95 = 99999, .p99 = 99999};
  LoadRow row = {.mode = "union:lookup+chat+math+block@64",
                 .requests = 100000,
                 .first_token_ms = slow,
                 .gap_ms = slow,
                 .total_ms = slow};
  const std::string table = LoadTable(std::vector<LoadRow>(5, row));
  for (absl::string_view line : absl::StrSplit(table, '\n')) {
    EXPECT_LE(line.size(), 80) << line;
  }
}

TEST(LoadTable, HasAColumnForEachMode) {
  const std::vector<LoadRow> rows = {
      {.mode = "plain", .requests = 7, .tau = 1},
      {.mode = "budgeted", .requests = 8, .tau = 2.25}};
  const std::vector<std::string> lines = absl::StrSplit(LoadTable(rows), '\n');
  EXPECT_THAT(lines[0], ::testing::ContainsRegex("plain +budgeted$"));
  EXPECT_THAT(lines, ::testing::Contains(
                         ::testing::ContainsRegex("^tau +1\\.00 +2\\.25$")));
}

}  // namespace
}  // namespace espalier::cli
