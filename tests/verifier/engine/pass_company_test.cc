#include "verifier/engine/pass_company.h"

#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

using absl::Milliseconds;

// 10 ms for up to 8 rows, 2 ms for each row more.
const PassCosts kCosts = {{.rows = 1, .time = Milliseconds(10)},
                          {.rows = 8, .time = Milliseconds(10)},
                          {.rows = 64, .time = Milliseconds(122)}};

absl::Duration Wait(int64_t rows, std::vector<AwaitedCompany> awaited) {
  return WaitForCompany(rows, std::move(awaited), kCosts, /*max_rows=*/64);
}

TEST(PassCompanyTest, WaitsForRowsThatAreFreeBesideOthers) {
  EXPECT_EQ(Wait(1, {{Milliseconds(2), 1}}), Milliseconds(2));
  EXPECT_EQ(Wait(1, {{Milliseconds(5), 1}, {Milliseconds(2), 1}}),
            Milliseconds(2))
      << "the third saves nothing more";
}

TEST(PassCompanyTest, RunsAtOnceWhereWaitingTakesLongerThanItSaves) {
  EXPECT_EQ(Wait(1, {}), absl::ZeroDuration());
  EXPECT_EQ(Wait(1, {{Milliseconds(11), 1}}), absl::ZeroDuration());
  // 12 rows: 18 ms, of which 10 would be spent on six alone.
  EXPECT_EQ(Wait(6, {{Milliseconds(1), 6}}), Milliseconds(1));
  EXPECT_EQ(Wait(6, {{Milliseconds(3), 6}}), absl::ZeroDuration());
}

TEST(PassCompanyTest, NeverWaitsWhereCostsAreUnknownOrThePassIsFull) {
  EXPECT_EQ(WaitForCompany(1, {{Milliseconds(1), 1}}, {}, 64),
            absl::ZeroDuration());
  EXPECT_EQ(WaitForCompany(4, {{Milliseconds(1), 4}}, kCosts, 7),
            absl::ZeroDuration());
}

TEST(PassCompanyTest, WhoHasNotComeBackYetIsNotExpected) {
  ReturnTime time;
  const absl::Duration unknown = time.Remaining(absl::ZeroDuration());
  EXPECT_EQ(unknown, absl::InfiniteDuration());
  EXPECT_EQ(Wait(1, {{unknown, 1}}), absl::ZeroDuration());
  for (int i = 0; i < 50; ++i) time.Observe(Milliseconds(4));
  EXPECT_GE(time.Remaining(absl::ZeroDuration()), Milliseconds(4));
  EXPECT_LE(time.Remaining(absl::ZeroDuration()), Milliseconds(4.1));
  EXPECT_LE(time.Remaining(Milliseconds(2)), Milliseconds(2.1));
}

// It is awaited a little longer, but not for ever.
TEST(PassCompanyTest, WhoIsLateIsExpectedSoon) {
  ReturnTime time;
  for (int i = 0; i < 50; ++i) time.Observe(Milliseconds(1));
  EXPECT_EQ(time.Remaining(Milliseconds(2)), Milliseconds(1));
  EXPECT_EQ(time.Remaining(Milliseconds(20)), Milliseconds(10));
  EXPECT_GT(Wait(1, {{time.Remaining(Milliseconds(2)), 1}}),
            absl::ZeroDuration());
  EXPECT_EQ(Wait(1, {{time.Remaining(Milliseconds(40)), 1}}),
            absl::ZeroDuration());
}

}  // namespace
}  // namespace espalier::verifier
