#ifndef ESPALIER_COORDINATOR_ACCEPTED_LENGTH_H_
#define ESPALIER_COORDINATOR_ACCEPTED_LENGTH_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"

namespace espalier::coordinator {

// How many of the emitted tokens a valid tree foretold in a row from its root,
// twins followed: what it would have had accepted. Whether it was verified does
// not matter, so every drafter can be judged by every round.
int64_t AcceptedLength(const TokenTree& tree,
                       absl::Span<const TokenId> emitted);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ACCEPTED_LENGTH_H_
