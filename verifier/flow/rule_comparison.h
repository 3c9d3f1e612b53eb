#ifndef ESPALIER_VERIFIER_FLOW_RULE_COMPARISON_H_
#define ESPALIER_VERIFIER_FLOW_RULE_COMPARISON_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/spec/token_tree.h"
#include "verifier/choosers.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/tree_verifier.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

struct RuleLength {
  std::string rule;
  double accepted = 0;  // expected number of accepted tokens
};

// What every rule would accept of a tree: expectations over the rules' own
// randomness, so nothing of the request's is drawn. ("specinfer" is that of a
// random order.) Not thread-safe.
class RuleComparison {
 public:
  RuleComparison();

  // The names that Compare may give: the rules that read laws, and "walk", the
  // walk with drafts that did not foresee its noise.
  std::vector<std::string> Rules() const;

  // Without the rules that the tree is not for. Errors are those of `laws`.
  // REQUIRES: the tree is valid and claims laws.
  absl::StatusOr<std::vector<RuleLength>> Compare(const TokenTree& tree,
                                                  TargetLaws& laws);

 private:
  std::map<std::string, std::unique_ptr<TreeVerifier>> verifiers_;
  GumbelChooser chooser_;
  int64_t round_ = 0;
  FlowTree tree_;
  FlowTree merged_tree_;  // with no twins
  StopLaw stop_law_;
  std::vector<double> reach_;  // scratch, [nodes]
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_RULE_COMPARISON_H_
