// The exact distribution of every rule that reads no draft distributions, under
// every sampling option, over the logits of a pass, against a definition
// written out in sampling_options.cc.

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "lab/exact_distribution.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/sampling_options.h"
#include "tests/verifier/small_trees.h"

namespace espalier::verifier {
namespace {

// The default rule verifies what others leave.
std::vector<std::string> PlainRules() {
  std::vector<std::string> rules = AllRules();
  std::erase_if(rules, [](const std::string& name) {
    return MakeRule(name)->needs().draft_distributions;
  });
  return rules;
}

class SamplingOptions
    : public ::testing::TestWithParam<std::tuple<std::string, SamplingOption>> {
 protected:
  void SetUp() override {
    if (!CanTest(option())) {
      GTEST_SKIP() << "built without structured output";
    }
  }
  static const SamplingOption& option() { return std::get<1>(GetParam()); }
};

TEST_P(SamplingOptions, GiveEveryTreeTheDistributionOfTheirDefinition) {
  const TableModel target = TargetOf(option());
  const auto joint = JointDistribution(target, kOptionDepth + 1);
  const auto rule = MakeRule(std::get<0>(GetParam()));
  if (rule->needs().sampling && option().sampling.greedy()) {
    GTEST_SKIP() << "the default rule's";
  }
  OptionPass pass(*rule, option());
  std::mt19937_64 random(3);
  double most_emitted = 0;
  for (int trial = 0; trial < 40; ++trial) {
    TokenTree tree = RandomTree(
        {.vocab = kOptionVocab, .depth = kOptionDepth, .branching = 3}, random);
    tree.tokens[0] = kOptionRoot;
    const ExactDistribution distribution = EnumerateDistribution(
        target, kOptionDepth + 1, [&](ChoiceTree& choices) {
          EnumeratingSampler sampler(choices);
          return pass.Emit(tree, sampler);
        });
    EXPECT_LT(MaxError(distribution.joint, joint), 1e-6);
    most_emitted = std::max(most_emitted, distribution.expected_emitted);
  }
  EXPECT_GT(most_emitted, 1.3);  // paths into the trees were tested
}

// Each changes the distribution, so that an option that is ignored is found.
TEST_P(SamplingOptions, ChangeTheDistribution) {
  const SamplingOption plain = {
      "Plain", {.temperature = option().sampling.temperature}, {}};
  EXPECT_GT(MaxError(JointDistribution(TargetOf(option()), kOptionDepth + 1),
                     JointDistribution(TargetOf(plain), kOptionDepth + 1)),
            1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    All, SamplingOptions,
    ::testing::Combine(::testing::ValuesIn(PlainRules()),
                       ::testing::ValuesIn(SamplingOptionCases())),
    [](const auto& test) {
      return TestName(std::get<0>(test.param)) + "_" +
             std::get<1>(test.param).name;
    });

}  // namespace
}  // namespace espalier::verifier
