#ifndef ESPALIER_VERIFIER_FLOW_FLOW_RULE_H_
#define ESPALIER_VERIFIER_FLOW_FLOW_RULE_H_

#include <memory>

#include "verifier/flow/tree_verifier.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// A rule that reads laws: the accepted path's end and the bonus token are two
// choices from the laws that `verifier` gives. Refuses trees that claim no laws
// ("no_laws") and those of a form that the verifier does not handle ("shape").
std::unique_ptr<VerificationRule> NewFlowRule(
    std::unique_ptr<TreeVerifier> verifier);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_FLOW_RULE_H_
