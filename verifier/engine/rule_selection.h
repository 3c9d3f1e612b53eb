#ifndef ESPALIER_VERIFIER_ENGINE_RULE_SELECTION_H_
#define ESPALIER_VERIFIER_ENGINE_RULE_SELECTION_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/registry.h"
#include "common/speculation/messages.h"
#include "verifier/engine/session.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// The rules of an engine, and which one verifies a request. Used on the
// engine's executor, but for its constant members.
class RuleSelection {
 public:
  // compared_rounds: the share of the rounds with sampled trees, 0 to 1, for
  // which other rules are compared. Errors of rule factories. INVALID_ARGUMENT:
  // no default rule that decides at every temperature.
  static absl::StatusOr<RuleSelection> Create(
      const Registry<VerificationRule>& rules, double compared_rounds);

  std::vector<std::string> names() const;
  // Returns the names of those that read drafters' distributions.
  std::vector<std::string> distribution_rules() const;
  VerificationRule& default_rule() const;

  // INVALID_ARGUMENT: the request names an unknown rule.
  absl::Status Check(const VerifyRequest& request) const;

  // Chooses the requested rule, or the default rule if that does not support
  // the request. Decided before anything is computed or sampled.
  void Choose(Job& job) const;

  // Chooses whether rules are compared in the request's round: at a fixed rate,
  // independently of what was sampled in earlier rounds.
  void ChooseComparison(Job& job);

 private:
  RuleSelection(Rules rules, double compared_rounds)
      : rules_(std::move(rules)), compared_rounds_(compared_rounds) {}

  Rules rules_;
  double compared_rounds_;
  double comparisons_due_ = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_RULE_SELECTION_H_
