#include "verifier/verification_rules.h"

namespace espalier::verifier {

void RegisterVerificationRules(Registry<VerificationRule>& registry) {
  registry.Add("walk", NewWalkRule);
}

}  // namespace espalier::verifier
