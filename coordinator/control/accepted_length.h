#ifndef ESPALIER_COORDINATOR_CONTROL_ACCEPTED_LENGTH_H_
#define ESPALIER_COORDINATOR_CONTROL_ACCEPTED_LENGTH_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"

namespace espalier::coordinator {

// Number of emitted tokens that a valid tree predicts in a row from its root,
// duplicates followed: its accepted length if it had been verified. So every
// drafter can be measured in every round.
int64_t AcceptedLength(const TokenTree& tree,
                       absl::Span<const TokenId> emitted);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_ACCEPTED_LENGTH_H_
