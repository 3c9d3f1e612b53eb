#include "coordinator/cli/load_row.h"

#include <vector>

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

}  // namespace
}  // namespace espalier::cli
