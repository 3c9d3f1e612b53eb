#ifndef ESPALIER_COORDINATOR_LAWFUL_UNION_H_
#define ESPALIER_COORDINATOR_LAWFUL_UNION_H_

#include <optional>

#include "common/spec/token_tree.h"
#include "coordinator/merge_policy.h"

namespace espalier::coordinator {

enum class Twins {
  kMerge,  // one node for each path of tokens
  kKeep,   // each tree has its own
};

// All of the trees under one root, with the laws that they were drawn from, for
// rules that read them. Every attempt keeps its law and stays one, in the order
// of drafters, then of attempts; nodes of a tree without laws were chosen. None
// where no tree has laws; where not all are of trusted drafters, since a node
// that was chosen with the verifier's choices in mind is no better than a wrong
// law; or where not all may fit: what is cut must not depend on what was drawn,
// nor on how many draws were alike.
std::optional<TokenTree> LawfulUnion(const MergeInput& input, Twins twins);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_LAWFUL_UNION_H_
