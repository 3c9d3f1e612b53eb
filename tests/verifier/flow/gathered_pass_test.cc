// A pass that gathers decides as one that hands over whole laws.
#include <map>
#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/tree_pass.h"
#include "verifier/choosers.h"
#include "verifier/flow/rule_comparison.h"
#include "verifier/flow/tree_supports.h"

namespace espalier::verifier {
namespace {

// A target that knows more tokens than the drafters, and may think little of
// theirs.
TreePass FarTarget() {
  return TreePass({.vocab_size = 12, .max_rows = 200, .deviation = 1.5f});
}

SamplingParams SamplingOf(uint64_t seed) {
  return {.temperature = 0.3f * static_cast<float>(1 + seed % 4), .seed = seed};
}

class GatheredPass
    : public ::testing::TestWithParam<std::tuple<std::string, SchemeCase>> {};

TEST_P(GatheredPass, DecidesAsOneWithWholeLaws) {
  const auto& [name, scheme_case] = GetParam();
  if (name == "walk") GTEST_SKIP() << "draws";
  const auto rule = MakeRule(name);
  TreePass pass = FarTarget();
  int64_t rounds = 0, outside = 0;
  ForEachDraftTree(
      scheme_case, [&](const Models&, uint64_t seed, const TokenTree& tree) {
        if (!rule->Refusal(tree).empty()) return;
        const SamplingParams sampling = SamplingOf(seed);
        const LogitUse use = UseOfLaws(*rule, tree, sampling, 1);
        ASSERT_TRUE(std::holds_alternative<GatherRequest>(use));
        const auto accept = [&](const LogitUse& told, Acceptance& accepted) {
          pass.Run(tree, sampling, told, [&](PassLaws& laws) {
            GumbelChooser chooser(sampling.seed);
            const auto result = rule->Accept(tree, 1, laws, chooser);
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

// Rules that merge twins and rules that do not.
TEST_P(GatheredComparison, IsThatOfWholeLaws) {
  const auto& [name, scheme_case] = GetParam();
  const auto rule = MakeRule(name);
  TreePass pass = FarTarget();
  ForEachDraftTree(
      scheme_case, [&](const Models&, uint64_t seed, const TokenTree& tree) {
        const SamplingParams sampling = SamplingOf(seed);
        RuleComparison comparison;
        const auto compare = [&](const LogitUse& told,
                                 std::map<std::string, double>& lengths) {
          pass.Run(tree, sampling, told, [&](PassLaws& laws) {
            const auto result = comparison.Compare(tree, laws);
            ASSERT_TRUE(result.ok()) << result.status();
            for (const RuleLength& length : *result) {
              if (length.rule == "specinfer") continue;  // a random order
              lengths[length.rule] = length.accepted;
            }
          });
        };
        std::map<std::string, double> gathered, whole;
        compare(UseOfLaws(*rule, tree, sampling, 1), gathered);
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

TEST(UseOfLaws, GathersForRulesThatReadLawsWithoutFilters) {
  const auto rule = MakeRule("lvseq-gr");
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 4, -0.7f);
  tree.laws.Add({4, 9}, {kLawTotal / 2, kLawTotal / 2});
  tree.slots = {{.node = 1, .law = 0}};
  const auto gathers = [&](const SamplingParams& sampling) {
    return std::holds_alternative<GatherRequest>(
        UseOfLaws(*rule, tree, sampling, 1));
  };
  EXPECT_TRUE(gathers({.temperature = 0.5f, .seed = 3}));
  EXPECT_FALSE(gathers({.temperature = 0.5f, .top_k = 3}));
  EXPECT_FALSE(gathers({.temperature = 0.5f, .top_p = 0.5f}));
  EXPECT_FALSE(gathers({}));
  const auto request = std::get<GatherRequest>(
      UseOfLaws(*rule, tree, {.temperature = 0.5f, .seed = 3}, 17));
  EXPECT_EQ(request.temperature, 0.5f);
  EXPECT_EQ(request.seed, 3u);
  EXPECT_EQ(request.round, 17);
  EXPECT_EQ(request.supports->tokens, (Tokens{4, 9}));
  EXPECT_EQ(request.supports->ends, (std::vector<int64_t>{0, 2, 2}));
}

TEST(TreeSupports, TwinsShareTheirs) {
  TokenTree tree = TokenTree::RootOnly(3);
  tree.Add(0, 4, -0.7f);
  tree.Add(0, 4, -0.7f);
  tree.Add(1, 6, -0.7f);
  tree.Add(2, 8, -0.7f);
  tree.laws.Add({4, 9}, {kLawTotal / 2, kLawTotal / 2});
  tree.laws.Add({1, 6}, {kLawTotal / 2, kLawTotal / 2});
  tree.slots = {{.node = 1, .law = 0},
                {.node = 2, .law = 0},
                {.node = 3, .law = 1},
                {.node = 4, .law = DraftSlot::kChosen}};
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
