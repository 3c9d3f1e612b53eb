#ifndef ESPALIER_VERIFIER_FLOW_FLOW_RULE_H_
#define ESPALIER_VERIFIER_FLOW_FLOW_RULE_H_

#include <memory>

#include "verifier/flow/tree_verifier.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// A rule that reads draft distributions. It samples the end of the accepted
// path and the bonus token from the StopDistribution of `verifier`. Unsupported
// are trees that claim no distributions ("no_distributions") and trees of a
// shape that the verifier does not handle ("shape").
std::unique_ptr<VerificationRule> NewFlowRule(
    std::unique_ptr<TreeVerifier> verifier);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_FLOW_RULE_H_
