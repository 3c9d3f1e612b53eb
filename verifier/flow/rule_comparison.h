#ifndef ESPALIER_VERIFIER_FLOW_RULE_COMPARISON_H_
#define ESPALIER_VERIFIER_FLOW_RULE_COMPARISON_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/speculation/token_tree.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/tree_verifier.h"
#include "verifier/rules/token_samplers.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

struct RuleLength {
  std::string rule;
  double accepted = 0;  // expected number of accepted tokens
};

// The expected acceptance length of a tree under every rule. The expectation is
// over the rules' own randomness, so none of the request's noise is used. (For
// "specinfer" it is that of one random order.) Not thread-safe.
class RuleComparison {
 public:
  RuleComparison();

  // Returns the names that Compare may return, see RegisterComparedVerifiers.
  std::vector<std::string> Rules() const;

  // Omits the rules that do not handle the tree. Returns the errors of
  // `distributions`. REQUIRES: the tree is valid and claims distributions.
  absl::StatusOr<std::vector<RuleLength>> Compare(
      const TokenTree& tree, TargetDistributions& distributions);

 private:
  std::map<std::string, std::unique_ptr<TreeVerifier>> verifiers_;
  GumbelSampler sampler_;
  int64_t round_ = 0;
  FlowTree tree_;
  FlowTree merged_tree_;  // with duplicates merged
  StopDistribution stop_distribution_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_RULE_COMPARISON_H_
