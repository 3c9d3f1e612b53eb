#include "verifier/rules/verification_rules.h"

#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "verifier/flow/flow_rule.h"
#include "verifier/flow/tree_verifiers.h"

namespace espalier::verifier {

void RegisterVerificationRules(Registry<VerificationRule>& registry) {
  registry.Add(kDefaultRule, NewWalkRule);
  Registry<TreeVerifier> verifiers("rule");
  RegisterTreeVerifiers(verifiers);
  for (const std::string& name : verifiers.Names()) {
    registry.Add(name,
                 [verifiers,
                  name]() -> absl::StatusOr<std::unique_ptr<VerificationRule>> {
                   ASSIGN_OR_RETURN(auto verifier, verifiers.Create(name));
                   return NewFlowRule(std::move(verifier));
                 });
  }
}

}  // namespace espalier::verifier
