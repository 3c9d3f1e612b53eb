#ifndef ESPALIER_COORDINATOR_CONTROL_WAIT_SHARES_H_
#define ESPALIER_COORDINATOR_CONTROL_WAIT_SHARES_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/control/draft_call.h"

namespace espalier::coordinator {

// Returns by drafter the seconds of the round's wait that are its own. Drafters
// that share cores wait for each other, so each has the part of their wait that
// it computed. Unset: the round did not wait for it. Thread-safe.
std::vector<std::optional<double>> WaitShares(
    absl::Span<const DrafterReturn> returns);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_WAIT_SHARES_H_
