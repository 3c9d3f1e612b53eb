// Plug-ins of a third party, in a folder of their own: nothing in the product
// refers to them.
#ifndef ESPALIER_TESTS_EXTENSION_PLUGINS_PLUGINS_H_
#define ESPALIER_TESTS_EXTENSION_PLUGINS_PLUGINS_H_

#include "common/base/registry.h"
#include "coordinator/merge/merge_policy.h"
#include "drafter/drafters.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::extension {

void RegisterEchoDrafter(drafter::DrafterRegistry& registry);
void RegisterFirstTokenRule(Registry<verifier::VerificationRule>& registry);
void RegisterSoonestPolicy(Registry<coordinator::MergePolicy>& registry);

}  // namespace espalier::extension

#endif  // ESPALIER_TESTS_EXTENSION_PLUGINS_PLUGINS_H_
