#include "common/rpc/call_deadline.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

gpr_timespec After(int64_t hours) {
  return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                      gpr_time_from_hours(hours, GPR_TIMESPAN));
}

TEST(CallDeadlineTest, IsTheTimeOfTheCall) {
  const absl::Time before = absl::Now();
  const absl::Time deadline = CallDeadline(After(3));
  EXPECT_GE(deadline, before + absl::Hours(3) - absl::Microseconds(1));
  EXPECT_LE(deadline, absl::Now() + absl::Hours(3));
}

TEST(CallDeadlineTest, OneInTheFarFutureIsNone) {
  EXPECT_EQ(CallDeadline(gpr_inf_future(GPR_CLOCK_REALTIME)),
            absl::InfiniteFuture());
  EXPECT_EQ(CallDeadline(gpr_inf_future(GPR_CLOCK_MONOTONIC)),
            absl::InfiniteFuture());
  // The largest hours of grpc-timeout that fit 64 bits of nanoseconds, and
  // more.
  for (int64_t hours : {2562047, 2562048, 99999999}) {
    EXPECT_EQ(CallDeadline(After(hours)), absl::InfiniteFuture()) << hours;
  }
}

}  // namespace
}  // namespace espalier
