#ifndef ESPALIER_VERIFIER_RULES_VERIFICATION_RULES_H_
#define ESPALIER_VERIFIER_RULES_VERIFICATION_RULES_H_

#include <memory>

#include "common/base/registry.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// The target-sampling walk ("walk"): samples the target's token at each step
// and descends the tree while a child has that token. Exact for any tree, even
// one drafted with knowledge of the sampling noise. Greedy where the
// distribution is a single token. Coupling of chains: Daliri, Musco, Suresh,
// arXiv 2408.07978.
std::unique_ptr<VerificationRule> NewWalkRule();

// The rule that "auto" selects and that takes the rounds another rule does not
// support. It works at every temperature and supports every tree.
inline constexpr char kDefaultRule[] = "walk";

// The list of all rules: the walk, and those of flow/tree_verifiers.h.
void RegisterVerificationRules(Registry<VerificationRule>& registry);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_RULES_VERIFICATION_RULES_H_
