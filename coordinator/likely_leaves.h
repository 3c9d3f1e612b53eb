#ifndef ESPALIER_COORDINATOR_LIKELY_LEAVES_H_
#define ESPALIER_COORDINATOR_LIKELY_LEAVES_H_

#include <vector>

#include "common/spec/token_tree.h"
#include "common/spec/types.h"

namespace espalier::coordinator {

// Where a verification of the tree may end so that a drafter has more to say:
// the tokens from below the root down to each leaf, the likeliest leaf first.
// Where it ends at an inner node, the next token is one that the drafters did
// not expect there. Empty for a root alone.
std::vector<std::vector<TokenId>> LikelyLeaves(const TokenTree& tree);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_LIKELY_LEAVES_H_
