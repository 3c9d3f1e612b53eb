// A rule gets what needs() declares, whatever its name.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

using ::testing::Contains;
using ::testing::Not;

// Emits the target's own token and accepts nothing: exact for every tree and
// temperature, and not the walk.
class PlainRule final : public VerificationRule {
 public:
  absl::StatusOr<Acceptance> Accept(const TokenTree&, int64_t first_position,
                                    TargetDistributions& distributions,
                                    TokenSampler& sampler) override {
    const auto distribution = distributions.DistributionAt(0);
    if (!distribution.ok()) return distribution.status();
    return Acceptance{
        .path = {},
        .bonus_token = sampler.SampleToken(first_position, *distribution)};
  }
};

// The same, only for rounds above temperature 0.
class SampledPlainRule final : public VerificationRule {
 public:
  RuleNeeds needs() const override { return {.sampling = true}; }
  absl::StatusOr<Acceptance> Accept(const TokenTree& tree, int64_t position,
                                    TargetDistributions& distributions,
                                    TokenSampler& sampler) override {
    return rule_.Accept(tree, position, distributions, sampler);
  }

 private:
  PlainRule rule_;
};

void RegisterWithPlainRules(Registry<VerificationRule>& rules) {
  RegisterVerificationRules(rules);
  rules.Add("plain", [] { return std::make_unique<PlainRule>(); });
  rules.Add("sampled-plain",
            [] { return std::make_unique<SampledPlainRule>(); });
}

// Returns a result on a tree whose first node is the target's next token.
VerifyResult VerifyResultOf(const std::string& rule, float temperature) {
  const ScriptedLanguageModel::Options script;
  const SamplingParams sampling = {.temperature = temperature, .seed = 3};
  Client client = {.id = {1, 1}, .text = {3, 1, 4}, .sampling = sampling};
  const Text plain =
      PlainText(script, client.text, sampling, client.text.size() + 1);
  TokenTree tree = TokenTree::RootOnly(client.text.back());
  tree.Add(0, plain.back(), -0.1f);
  VerifyRequest request = client.Request(std::move(tree));
  request.rule = rule;
  EngineHarness harness(script, {}, RegisterWithPlainRules);
  const auto verify_result = harness.Ask(std::move(request));
  EXPECT_TRUE(verify_result.ok()) << verify_result.status();
  EXPECT_EQ(verify_result->tokens[0], plain.back());
  return *verify_result;
}

TEST(RuleNeeds, ARuleThatReadsNoDistributionsRunsAtEveryTemperature) {
  for (float temperature : {0.0f, 1.0f}) {
    const VerifyResult plain = VerifyResultOf("plain", temperature);
    EXPECT_EQ(plain.rule, "plain");
    EXPECT_TRUE(plain.path.empty()) << "the walk ran in its place";
    EXPECT_EQ(VerifyResultOf("auto", temperature).path.size(), 1u);
  }
}

TEST(RuleNeeds, ARuleForSampledRoundsLeavesGreedyOnesToTheDefault) {
  EXPECT_EQ(VerifyResultOf("sampled-plain", 1).rule, "sampled-plain");
  EXPECT_EQ(VerifyResultOf("sampled-plain", 0).rule, kDefaultRule);
}

TEST(RuleNeeds, AreInWhatTheVerifierSaysOfItself) {
  EngineHarness harness({}, {}, RegisterWithPlainRules);
  const VerifierInfo info = harness.engine->info();
  EXPECT_THAT(info.rules, Contains("plain"));
  EXPECT_THAT(info.distribution_rules, Contains("lvseq-gr"));
  EXPECT_THAT(info.distribution_rules, Not(Contains("plain")));
  EXPECT_THAT(info.distribution_rules, Not(Contains(kDefaultRule)));
}

TEST(RuleNeeds, AnEngineHasADefaultThatDecidesEverything) {
  prometheus::Registry metrics;
  const auto create = [&](RegisterRules register_rules) {
    Registry<VerificationRule> rules("rule");
    register_rules(rules);
    return VerifyEngine::Create({},
                                std::make_unique<ScriptedLanguageModel>(
                                    ScriptedLanguageModel::Options()),
                                std::make_unique<FakeExecutor>(), rules,
                                metrics)
        .status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(create([](auto&) {})));
  EXPECT_TRUE(absl::IsInvalidArgument(create([](auto& rules) {
    rules.Add(kDefaultRule,
              [] { return std::make_unique<SampledPlainRule>(); });
  })));
}

}  // namespace
}  // namespace espalier::verifier
