#ifndef ESPALIER_VERIFIER_FLOW_TREE_VERIFIERS_H_
#define ESPALIER_VERIFIER_FLOW_TREE_VERIFIERS_H_

#include "common/base/registry.h"
#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {

// The list of all rules that read draft distributions: each lifting of each
// single step as "<lifting>-<step>", and the others.
void RegisterTreeVerifiers(Registry<TreeVerifier>& registry);

// The rules whose acceptance lengths are compared: the above, and "walk" on
// drafts made without its noise.
void RegisterComparedVerifiers(Registry<TreeVerifier>& registry);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_TREE_VERIFIERS_H_
