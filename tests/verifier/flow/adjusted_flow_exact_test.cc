// The exact distribution of every rule that reads draft distributions, under
// every sampling option, over all drafts and all choices. Drafters know nothing
// of the options.

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/random_model.h"
#include "tests/verifier/sampling_options.h"

namespace espalier::verifier {
namespace {

std::vector<std::string> FlowRules() {
  std::vector<std::string> rules = AllRules();
  std::erase_if(rules, [](const std::string& name) {
    return !MakeRule(name)->needs().draft_distributions;
  });
  return rules;
}

// Requests at temperature 0 are the walk's.
std::vector<SamplingOption> SampledOptions() {
  std::vector<SamplingOption> options = SamplingOptionCases();
  std::erase_if(options, [](const SamplingOption& option) {
    return option.sampling.greedy();
  });
  return options;
}

// Chains, trees with and without duplicates, draws without replacement, and
// draws beside chosen tokens, of one drafter and of two.
std::vector<SchemeCase> OptionSchemes() {
  std::vector<SchemeCase> schemes = SchemeCases();
  std::erase_if(schemes, [](const SchemeCase& scheme) {
    static const std::vector<std::string> kNames = {
        "SampledChainsOfThree", "SampledTaperedApart", "SampledWithEnd",
        "GreedyPlusOne",        "DistinctByTwoApart",  "Mixed"};
    return std::count(kNames.begin(), kNames.end(), scheme.name) == 0;
  });
  return schemes;
}

// Two unlike drafters; half of their probabilities are 0. And one that knows
// the target without options.
std::vector<std::vector<TableModel>> Drafters() {
  std::mt19937_64 random(17);
  const auto any = [&] {
    return RandomModel(kOptionVocab, kOptionDepth, 0.5, random);
  };
  return {{any(), any()}, {TargetOf({"Plain", {.temperature = 1}, {}}), any()}};
}

class AdjustedFlow
    : public ::testing::TestWithParam<std::tuple<std::string, SamplingOption>> {
 protected:
  void SetUp() override {
    if (!CanTest(std::get<1>(GetParam()))) {
      GTEST_SKIP() << "built without structured output";
    }
  }
};

TEST_P(AdjustedFlow, EmitsTheAdjustedDistribution) {
  const auto& [name, option] = GetParam();
  const auto rule = MakeRule(name);
  OptionPass pass(*rule, option);
  const TableModel target = TargetOf(option);
  const auto wanted = JointDistribution(target, kOptionDepth + 1);
  double most_emitted = 0;
  for (const auto& models : Drafters()) {
    const std::vector<const SequenceModel*> drafters = {&models[0], &models[1]};
    for (const SchemeCase& scheme : OptionSchemes()) {
      bool supported = true;
      const ExactDistribution distribution = EnumerateDistribution(
          target, kOptionDepth + 1, [&](ChoiceTree& choices) -> Tokens {
            const TokenTree tree = DraftTree(
                scheme.scheme, drafters,
                [&](absl::Span<const double> p) { return choices.Choose(p); });
            supported = rule->UnsupportedReason(tree).empty();
            if (!supported) return {0};
            EnumeratingSampler sampler(choices);
            return pass.Emit(tree, sampler);
          });
      if (!supported) continue;
      EXPECT_LT(MaxError(distribution.joint, wanted), 1e-6) << scheme.name;
      most_emitted = std::max(most_emitted, distribution.expected_emitted);
    }
  }
  EXPECT_GT(most_emitted, 1.15);  // drafts were accepted
}

// Each rule meets the options together, and a rule of each kind every option;
// the others meet nightly.
std::string NameOfPair(
    const ::testing::TestParamInfo<AdjustedFlow::ParamType>& named) {
  const auto& [rule, option] = named.param;
  const std::string options = option.name;
  const std::string name = TestName(rule) + "_" + options;
  const bool are_all =
      options == "Everything" || options == "GrammarAndTheRest";
  const bool is_first = rule == "bv" || rule == "lv-kseq" || rule == "trv";
  return are_all || is_first ? name : "Nightly_" + name;
}

INSTANTIATE_TEST_SUITE_P(
    RulesAndOptions, AdjustedFlow,
    ::testing::Combine(::testing::ValuesIn(FlowRules()),
                       ::testing::ValuesIn(SampledOptions())),
    NameOfPair);

}  // namespace
}  // namespace espalier::verifier
