// A pass that gathers gives the same results as one with whole distributions.
#include <map>
#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/tree_pass.h"
#include "verifier/flow/rule_comparison.h"
#include "verifier/flow/tree_supports.h"
#include "verifier/rules/token_samplers.h"

namespace espalier::verifier {
namespace {

// Returns a target with a larger vocabulary than the drafters, which may give
// their tokens little probability.
TreePass FarTarget() {
  return TreePass({.vocab_size = 12, .max_rows = 200, .deviation = 1.5f});
}

SamplingParams SamplingOf(uint64_t seed) {
  return {.temperature = 0.3f * static_cast<float>(1 + seed % 4), .seed = seed};
}

class GatheredPass
    : public ::testing::TestWithParam<std::tuple<std::string, SchemeCase>> {};

TEST_P(GatheredPass, DecidesAsOneWithWholeDistributions) {
  const SchemeCase scheme_case = std::get<SchemeCase>(GetParam());
  const auto rule = MakeRule(std::get<std::string>(GetParam()));
  if (rule->needs().logits != LogitNeed::kGathered) {
    GTEST_SKIP() << "gathers no logits";
  }
  TreePass pass = FarTarget();
  int64_t rounds = 0, outside = 0;
  ForEachDraftTree(
      scheme_case, [&](const Models&, uint64_t seed, const TokenTree& tree) {
        if (!rule->UnsupportedReason(tree).empty()) return;
        const SamplingParams sampling = SamplingOf(seed);
        const LogitUse use = LogitUseFor(*rule, tree, sampling, 1);
        ASSERT_TRUE(std::holds_alternative<GatherRequest>(use));
        const auto accept = [&](const LogitUse& told, Acceptance& accepted) {
          pass.Run(tree, sampling, told, [&](PassDistributions& distributions) {
            GumbelSampler sampler(sampling.seed);
            const auto result = rule->Accept(tree, 1, distributions, sampler);
            ASSERT_TRUE(result.ok()) << result.status();
            accepted = *result;
          });
        };
        Acceptance gathered, whole;
        accept(use, gathered);
        accept(AnyUse{}, whole);
        ASSERT_EQ(gathered.path, whole.path);
        ASSERT_EQ(gathered.bonus_token, whole.bonus_token);
        ++rounds;
        outside += whole.bonus_token >= scheme_case.vocab;  // no draft's
      });
  EXPECT_GE(outside, rounds / 10);
}

INSTANTIATE_TEST_SUITE_P(RulesAndSchemes, GatheredPass,
                         ::testing::Combine(::testing::ValuesIn(AllRules()),
                                            ::testing::ValuesIn(SchemeCases())),
                         [](const auto& named) {
                           return TestName(std::get<0>(named.param)) + "_" +
                                  std::get<1>(named.param).name;
                         });

using GatheredComparison = GatheredPass;

// Rules that merge duplicates and rules that do not.
TEST_P(GatheredComparison, IsThatOfWholeDistributions) {
  const auto& [name, scheme_case] = GetParam();
  const auto rule = MakeRule(name);
  TreePass pass = FarTarget();
  ForEachDraftTree(
      scheme_case, [&](const Models&, uint64_t seed, const TokenTree& tree) {
        const SamplingParams sampling = SamplingOf(seed);
        RuleComparison comparison;
        const auto compare = [&](const LogitUse& told,
                                 std::map<std::string, double>& lengths) {
          pass.Run(tree, sampling, told, [&](PassDistributions& distributions) {
            const auto result = comparison.Compare(tree, distributions);
            ASSERT_TRUE(result.ok()) << result.status();
            for (const RuleLength& length : *result) {
              if (length.rule == "specinfer") continue;  // a random order
              lengths[length.rule] = length.accepted;
            }
          });
        };
        std::map<std::string, double> gathered, whole;
        compare(LogitUseFor(*rule, tree, sampling, 1), gathered);
        compare(AnyUse{}, whole);
        ASSERT_EQ(gathered.size(), whole.size());
        for (const auto& [compared, length] : whole) {
          EXPECT_NEAR(gathered[compared], length, 1e-6) << compared;
        }
      });
}

INSTANTIATE_TEST_SUITE_P(Schemes, GatheredComparison,
                         ::testing::Combine(::testing::Values("trv"),
                                            ::testing::ValuesIn(SchemeCases())),
                         [](const auto& named) {
                           return std::get<1>(named.param).name;
                         });

TEST(LogitUseFor, GathersForRulesThatReadDistributionsWithoutFilters) {
  const auto rule = MakeRule("lvseq-gr");
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 4, -0.7f);
  tree.distributions.Add({4, 9},
                         {kDistributionTotal / 2, kDistributionTotal / 2});
  tree.samples = {{.node = 1, .distribution = 0}};
  const auto gathers = [&](const SamplingParams& sampling) {
    return std::holds_alternative<GatherRequest>(
        LogitUseFor(*rule, tree, sampling, 1));
  };
  EXPECT_TRUE(gathers({.temperature = 0.5f, .seed = 3}));
  EXPECT_FALSE(gathers({.temperature = 0.5f, .top_k = 3}));
  EXPECT_FALSE(gathers({.temperature = 0.5f, .top_p = 0.5f}));
  EXPECT_FALSE(gathers({}));
  const auto request = std::get<GatherRequest>(
      LogitUseFor(*rule, tree, {.temperature = 0.5f, .seed = 3}, 17));
  EXPECT_EQ(request.temperature, 0.5f);
  EXPECT_EQ(request.seed, 3u);
  EXPECT_EQ(request.round, 17);
  EXPECT_EQ(request.supports->tokens, (Tokens{4, 9}));
  EXPECT_EQ(request.supports->ends, (std::vector<int64_t>{0, 2, 2}));
}

TEST(TreeSupports, DuplicatesShareTheirs) {
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 4, -0.7f);
  tree.Add(0, 4, -0.7f);
  tree.Add(1, 6, -0.7f);
  tree.Add(2, 8, -0.7f);
  tree.distributions.Add({4, 9},
                         {kDistributionTotal / 2, kDistributionTotal / 2});
  tree.distributions.Add({1, 6},
                         {kDistributionTotal / 2, kDistributionTotal / 2});
  tree.samples = {{.node = 1, .distribution = 0},
                  {.node = 2, .distribution = 0},
                  {.node = 3, .distribution = 1},
                  {.node = 4, .distribution = DraftSample::kDeterministic}};
  const RowSupports supports = TreeSupports(tree);
  ASSERT_EQ(supports.rows(), 5);
  EXPECT_EQ(supports.Of(0), Tokens({4, 9}));
  EXPECT_EQ(supports.Of(1), Tokens({1, 6, 8}));
  EXPECT_EQ(supports.Of(2), supports.Of(1));
  EXPECT_TRUE(supports.Of(3).empty());
  EXPECT_TRUE(supports.Of(4).empty());
}

}  // namespace
}  // namespace espalier::verifier
