#include "common/rpc/call_deadline.h"

namespace espalier {

absl::Time CallDeadline(gpr_timespec deadline) {
  const gpr_timespec far =
      gpr_time_add(gpr_now(deadline.clock_type),
                   gpr_time_from_hours(24 * 365, GPR_TIMESPAN));
  if (gpr_time_cmp(deadline, far) >= 0) return absl::InfiniteFuture();
  const gpr_timespec real =
      gpr_convert_clock_type(deadline, GPR_CLOCK_REALTIME);
  return absl::FromUnixSeconds(real.tv_sec) + absl::Nanoseconds(real.tv_nsec);
}

}  // namespace espalier
