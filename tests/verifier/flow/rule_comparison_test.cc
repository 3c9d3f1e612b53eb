// Expected acceptance lengths equal the actual ones.
#include "verifier/flow/rule_comparison.h"

#include <algorithm>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

class RuleComparisonTest : public ::testing::TestWithParam<SchemeCase> {};

TEST_P(RuleComparisonTest, LengthsAreThoseOfTheRulesThemselves) {
  RuleComparison comparison;
  const Tokens committed;
  for (const Models& models : ModelCases(GetParam().vocab, GetParam().depth)) {
    std::vector<const SequenceModel*> drafters;
    for (const TableModel& drafter : models.drafters) {
      drafters.push_back(&drafter);
    }
    GumbelSampler drafts(7);
    const TokenTree tree =
        DraftTree(GetParam().scheme, drafters,
                  [&drafts](absl::Span<const double> distribution) {
                    return drafts.SampleIndex(0, distribution);
                  });
    ModelDistributions distributions(models.target, committed, tree);
    const auto lengths = comparison.Compare(tree, distributions);
    ASSERT_TRUE(lengths.ok()) << lengths.status();
    std::map<std::string, double> by_rule;
    for (const RuleLength& length : *lengths) {
      by_rule[length.rule] = length.accepted;
    }
    for (const std::string& name : comparison.Rules()) {
      const auto rule = MakeRule(name);
      ASSERT_EQ(by_rule.contains(name), rule->UnsupportedReason(tree).empty())
          << name;
      // `specinfer` looks at one random order of the draws.
      if (!by_rule.contains(name) || name == "specinfer") continue;
      const ExactDistribution distribution =
          EnumerateDistribution(models.target, GetParam().depth + 1,
                                RuleRound(*rule, models.target, tree));
      // After unlikely draws little is left to divide by.
      EXPECT_NEAR(by_rule[name], distribution.expected_emitted - 1, 1e-6)
          << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, RuleComparisonTest,
                         ::testing::ValuesIn(SchemeCases()),
                         [](const auto& named) { return named.param.name; });

TEST(RuleComparison, NamesTheRulesThatReadDistributionsAndTheWalk) {
  std::vector<std::string> names = RuleComparison().Rules();
  std::sort(names.begin(), names.end());
  std::vector<std::string> expected = AllRules();
  std::erase_if(expected, [](const std::string& name) {
    return name != kDefaultRule && !MakeRule(name)->needs().draft_distributions;
  });
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace espalier::verifier
