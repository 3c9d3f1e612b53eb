#ifndef ESPALIER_VERIFIER_VERIFICATION_RULES_H_
#define ESPALIER_VERIFIER_VERIFICATION_RULES_H_

#include <memory>

#include "common/base/registry.h"
#include "verifier/flow/tree_verifier.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// The target-sampling walk ("walk"): draws the target's own token at each step
// and follows it down the tree while some node carries it. Exact for any tree,
// however made, even from the noise it draws with. Greedy where the law is one
// token. Daliri, Musco, Suresh, arXiv 2408.07978, for the coupling of chains.
std::unique_ptr<VerificationRule> NewWalkRule();

// The list of rules that read laws: each lifting of each single step as
// "<lifting>-<step>", and the others.
void RegisterTreeVerifiers(Registry<TreeVerifier>& registry);

// All rules: the walk, and the above.
void RegisterVerificationRules(Registry<VerificationRule>& registry);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFICATION_RULES_H_
