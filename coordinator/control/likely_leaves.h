#ifndef ESPALIER_COORDINATOR_CONTROL_LIKELY_LEAVES_H_
#define ESPALIER_COORDINATOR_CONTROL_LIKELY_LEAVES_H_

#include <vector>

#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"

namespace espalier::coordinator {

// The paths of tokens from below the root to each leaf, the likeliest leaf
// first: the ends of the verification after which a drafter can continue. If it
// ends at an inner node, the next token is one that no drafter expected there.
// Empty for a root alone.
std::vector<std::vector<TokenId>> LikelyLeaves(const TokenTree& tree);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_LIKELY_LEAVES_H_
