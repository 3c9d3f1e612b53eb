// The exact distribution of the walk under every sampling option, over the
// logits of a pass, against a definition written out in sampling_options.cc.

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "tests/verifier/sampling_options.h"
#include "tests/verifier/small_trees.h"
#include "verifier/lab/exact_distribution.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

class SamplingOptions : public ::testing::TestWithParam<SamplingOption> {
 protected:
  void SetUp() override {
    if (!CanTest(GetParam())) {
      GTEST_SKIP() << "built without structured output";
    }
  }
};

TEST_P(SamplingOptions, GiveEveryTreeTheDistributionOfTheirDefinition) {
  const TableModel target = TargetOf(GetParam());
  const auto joint = JointDistribution(target, kOptionDepth + 1);
  const auto rule = NewWalkRule();
  OptionPass pass(*rule, GetParam());
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
      "Plain", {.temperature = GetParam().sampling.temperature}, {}};
  EXPECT_GT(MaxError(JointDistribution(TargetOf(GetParam()), kOptionDepth + 1),
                     JointDistribution(TargetOf(plain), kOptionDepth + 1)),
            1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, SamplingOptions,
                         ::testing::ValuesIn(SamplingOptionCases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace espalier::verifier
