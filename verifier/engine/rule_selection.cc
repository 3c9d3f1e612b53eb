#include "verifier/engine/rule_selection.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

std::string RuleName(const VerifyRequest& request) {
  return request.rule == "auto" ? kDefaultRule : request.rule;
}

}  // namespace

absl::StatusOr<RuleSelection> RuleSelection::Create(
    const Registry<VerificationRule>& rules, double compared_rounds) {
  Rules made;
  for (const std::string& name : rules.Names()) {
    ASSIGN_OR_RETURN(made[name], rules.Create(name));
  }
  const auto takes_all = made.find(kDefaultRule);
  if (takes_all == made.end() || takes_all->second->needs().sampling) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no rule \"", kDefaultRule, "\" that decides at every temperature"));
  }
  return RuleSelection(std::move(made), compared_rounds);
}

std::vector<std::string> RuleSelection::names() const {
  std::vector<std::string> names;
  for (const auto& [name, rule] : rules_) names.push_back(name);
  return names;
}

std::vector<std::string> RuleSelection::distribution_rules() const {
  std::vector<std::string> names;
  for (const auto& [name, rule] : rules_) {
    if (rule->needs().draft_distributions) names.push_back(name);
  }
  return names;
}

VerificationRule& RuleSelection::default_rule() const {
  return *rules_.at(kDefaultRule);
}

absl::Status RuleSelection::Check(const VerifyRequest& request) const {
  if (rules_.contains(RuleName(request))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unknown rule \"", request.rule, "\"; known: auto, ",
                   absl::StrJoin(names(), ", ")));
}

void RuleSelection::Choose(Job& job) const {
  job.rule = &*rules_.find(RuleName(job.request));
  VerificationRule& rule = *job.rule->second;
  const bool greedy = job.request.update.sampling.greedy();
  job.unsupported = greedy && rule.needs().sampling
                        ? "greedy"
                        : rule.UnsupportedReason(job.request.tree);
  if (!job.unsupported.empty()) job.rule = &*rules_.find(kDefaultRule);
}

void RuleSelection::ChooseComparison(Job& job) {
  if (job.request.update.sampling.greedy() ||
      !job.request.tree.claims_distributions()) {
    return;
  }
  comparisons_due_ += compared_rounds_;
  job.compared = comparisons_due_ >= 1;
  if (job.compared) comparisons_due_ -= 1;
}

}  // namespace espalier::verifier
