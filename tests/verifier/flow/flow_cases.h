// The cases of the exact tests of flow rules: difficult models, and drafting
// schemes.
#ifndef ESPALIER_TESTS_VERIFIER_FLOW_FLOW_CASES_H_
#define ESPALIER_TESTS_VERIFIER_FLOW_FLOW_CASES_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "lab/draft_scheme.h"
#include "lab/exact_distribution.h"
#include "lab/sequence_model.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// A drafting scheme, with a vocabulary small enough to enumerate.
struct SchemeCase {
  std::string name;
  int64_t vocab;
  int64_t depth;
  DraftScheme scheme;
};
void PrintTo(const SchemeCase& scheme_case, std::ostream* out);

// Each kind of draft on each shape, and trees of several drafters.
std::vector<SchemeCase> SchemeCases();

// A target and two drafters.
struct Models {
  std::string name;
  TableModel target;
  std::vector<TableModel> drafters;
};
// Unlike, alike, with zeros, equal, without a common token.
std::vector<Models> ModelCases(int64_t vocab, int64_t depth);

// Trees that the scheme drafts over all models, with 20 seeds each.
void ForEachDraftTree(
    const SchemeCase& scheme_case,
    absl::FunctionRef<void(const Models&, uint64_t seed, const TokenTree&)>
        see);

// Returns the exact distribution of `depth` + 1 tokens when the rule verifies
// the scheme's drafts.
ExactDistribution DistributionOfRule(VerificationRule& rule,
                                     const Models& models,
                                     const SchemeCase& scheme_case);

std::vector<std::string> AllRules();
std::unique_ptr<VerificationRule> MakeRule(const std::string& name);

// Returns a rule's name as the name of a test.
std::string TestName(std::string name);

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_FLOW_FLOW_CASES_H_
