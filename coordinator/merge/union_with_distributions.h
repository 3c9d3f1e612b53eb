#ifndef ESPALIER_COORDINATOR_MERGE_UNION_WITH_DISTRIBUTIONS_H_
#define ESPALIER_COORDINATOR_MERGE_UNION_WITH_DISTRIBUTIONS_H_

#include <optional>

#include "common/speculation/token_tree.h"
#include "coordinator/merge/merge_policy.h"

namespace espalier::coordinator {

enum class Duplicates {
  kMerge,  // one node for each path of tokens
  kKeep,   // each tree keeps its own
};

// All trees under one root, with the distributions that they were sampled from,
// for rules that read them. Every sample keeps its distribution and stays a
// sample of its own, in the order of drafters, then of samples. Nodes of a tree
// without distributions are deterministic.
// nullopt in three cases. No tree has distributions. Some trees are of drafters
// that are not trusted: a node that was selected with knowledge of the
// verifier's noise is no better than a wrong distribution. Not all nodes may
// fit: a cut must not depend on what was sampled, nor on how many samples were
// equal.
std::optional<TokenTree> UnionWithDistributions(const MergeInput& input,
                                                Duplicates duplicates);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_UNION_WITH_DISTRIBUTIONS_H_
