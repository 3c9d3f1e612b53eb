#include "verifier/engine/rule_selection.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

RuleSelection Selection(double compared_rounds = 0) {
  Registry<VerificationRule> registry("rule");
  RegisterVerificationRules(registry);
  return *RuleSelection::Create(registry, compared_rounds);
}

Job JobFor(const std::string& rule, double temperature) {
  Job job;
  job.request.rule = rule;
  job.request.update.sampling.temperature = temperature;
  job.request.tree = TokenTree::RootOnly(1);
  return job;
}

TEST(RuleSelectionTest, NeedsARuleForEveryTemperature) {
  const auto none =
      RuleSelection::Create(Registry<VerificationRule>("rule"), 0);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RuleSelectionTest, KnowsWhichRulesReadDistributions) {
  const RuleSelection selection = Selection();
  EXPECT_THAT(selection.names(), Contains(kDefaultRule));
  EXPECT_THAT(selection.distribution_rules(), IsSubsetOf(selection.names()));
  EXPECT_THAT(selection.distribution_rules(),
              ::testing::Not(Contains(kDefaultRule)));
}

TEST(RuleSelectionTest, AutoIsTheDefaultRule) {
  const RuleSelection selection = Selection();
  Job job = JobFor("auto", 1);
  EXPECT_TRUE(selection.Check(job.request).ok());
  selection.Choose(job);
  EXPECT_EQ(job.rule->first, kDefaultRule);
  EXPECT_EQ(job.unsupported, "");
}

TEST(RuleSelectionTest, NamesTheKnownRulesForAnUnknownOne) {
  const absl::Status status = Selection().Check(JobFor("dice", 1).request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(std::string("known: auto, ")));
}

// Every rule that needs samples gives way to the default rule without any.
TEST(RuleSelectionTest, FallsBackWhereARuleDoesNotSupportTheRequest) {
  const RuleSelection selection = Selection();
  for (const std::string& name : selection.distribution_rules()) {
    Job job = JobFor(name, 0);
    selection.Choose(job);
    EXPECT_EQ(job.rule->first, kDefaultRule) << name;
    EXPECT_EQ(job.unsupported, "greedy") << name;
  }
}

TEST(RuleSelectionTest, ComparesAFixedShareOfTheRoundsWithDistributions) {
  RuleSelection selection = Selection(0.25);
  int compared = 0;
  for (int round = 0; round < 16; ++round) {
    Job job = JobFor("auto", 1);
    job.request.tree.samples.resize(1);
    ASSERT_TRUE(job.request.tree.claims_distributions());
    selection.ChooseComparison(job);
    compared += job.compared;
    Job greedy = JobFor("auto", 0);
    greedy.request.tree = job.request.tree;
    selection.ChooseComparison(greedy);
    EXPECT_FALSE(greedy.compared);
  }
  EXPECT_EQ(compared, 4);
}

}  // namespace
}  // namespace espalier::verifier
