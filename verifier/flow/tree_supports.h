#ifndef ESPALIER_VERIFIER_FLOW_TREE_SUPPORTS_H_
#define ESPALIER_VERIFIER_FLOW_TREE_SUPPORTS_H_

#include "common/model/logits/logit_row.h"
#include "common/speculation/token_tree.h"

namespace espalier::verifier {

// Returns, for each node, the tokens whose target probabilities rules that read
// distributions need: all that a draw at the node, or at one of its duplicates,
// could have produced. It serves rules that merge duplicates and rules that do
// not. REQUIRES: `tree` is valid and claims distributions.
RowSupports TreeSupports(const TokenTree& tree);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_TREE_SUPPORTS_H_
