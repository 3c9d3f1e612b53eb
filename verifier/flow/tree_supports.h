#ifndef ESPALIER_VERIFIER_FLOW_TREE_SUPPORTS_H_
#define ESPALIER_VERIFIER_FLOW_TREE_SUPPORTS_H_

#include "common/model/logit_row.h"
#include "common/spec/token_tree.h"

namespace espalier::verifier {

// By node, the tokens at which rules that read laws look at the target's: all
// that an attempt at a child of the node, or of one of its twins, could have
// found. So it serves rules that merge twins and rules that do not. REQUIRES:
// `tree` is valid and claims laws.
RowSupports TreeSupports(const TokenTree& tree);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_TREE_SUPPORTS_H_
