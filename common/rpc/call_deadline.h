#ifndef ESPALIER_COMMON_RPC_CALL_DEADLINE_H_
#define ESPALIER_COMMON_RPC_CALL_DEADLINE_H_

#include "absl/time/time.h"
#include "grpc/support/time.h"

namespace espalier {

// A call's deadline (ServerContext::raw_deadline). One that is more than a year
// away is none: gRPC's clocks reach further than those of the standard library,
// whose nanoseconds would overflow.
absl::Time CallDeadline(gpr_timespec deadline);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CALL_DEADLINE_H_
