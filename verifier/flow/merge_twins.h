#ifndef ESPALIER_VERIFIER_FLOW_MERGE_TWINS_H_
#define ESPALIER_VERIFIER_FLOW_MERGE_TWINS_H_

#include <cstdint>
#include <vector>

#include "common/spec/token_tree.h"

namespace espalier::verifier {

struct MergedTwins {
  TokenTree tree;              // no siblings with the same token
  std::vector<int32_t> first;  // [its nodes] the first of the twins
};

// Nodes that spell the same text become one, which keeps all their slots; laws
// that say the same become one. REQUIRES: `tree` is valid and claims laws.
MergedTwins MergeTwins(const TokenTree& tree);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_MERGE_TWINS_H_
