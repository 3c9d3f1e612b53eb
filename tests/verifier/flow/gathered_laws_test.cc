// Rules that read laws of drafts need no more of the target's than the tree's
// tokens, and a draw from the others.
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "verifier/choosers.h"

namespace espalier::verifier {
namespace {

// Gives what is gathered, and refuses whole laws.
class FarLaws final : public TargetLaws {
 public:
  explicit FarLaws(TargetLaws& near) : near_(near) {}

  absl::StatusOr<TargetLaw> LawAt(int32_t) override {
    return absl::InternalError("the law is far away");
  }
  absl::StatusOr<double> Gather(int32_t node, absl::Span<const TokenId> support,
                                absl::Span<double> inside) override {
    return near_.Gather(node, support, inside);
  }
  absl::StatusOr<TokenId> DrawOutside(int32_t node,
                                      absl::Span<const TokenId> support,
                                      int64_t round,
                                      Chooser& chooser) override {
    return near_.DrawOutside(node, support, round, chooser);
  }

 private:
  TargetLaws& near_;
};

class GatheredLaws
    : public ::testing::TestWithParam<std::tuple<std::string, SchemeCase>> {};

TEST_P(GatheredLaws, AreEnoughForEveryRule) {
  const auto& [name, scheme_case] = GetParam();
  if (name == "walk") GTEST_SKIP() << "draws from whole laws";
  const auto rule = MakeRule(name);
  const Tokens committed;
  ForEachDraftTree(scheme_case, [&](const Models& models, uint64_t seed,
                                    const TokenTree& tree) {
    if (!rule->Refusal(tree).empty()) return;
    ModelLaws near(models.target, committed, tree);
    FarLaws far(near);
    GumbelChooser one(seed), other(seed);
    const auto expected = rule->Accept(tree, 1, near, one);
    const auto accepted = rule->Accept(tree, 1, far, other);
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    EXPECT_EQ(accepted->path, expected->path);
    EXPECT_EQ(accepted->bonus_token, expected->bonus_token);
  });
}

INSTANTIATE_TEST_SUITE_P(RulesAndSchemes, GatheredLaws,
                         ::testing::Combine(::testing::ValuesIn(AllRules()),
                                            ::testing::ValuesIn(SchemeCases())),
                         [](const auto& named) {
                           return TestName(std::get<0>(named.param)) + "_" +
                                  std::get<1>(named.param).name;
                         });

// A law with some tokens filtered away.
class SparseLaws final : public TargetLaws {
 public:
  absl::StatusOr<TargetLaw> LawAt(int32_t) override {
    return TargetLaw{.tokens = tokens_, .log_weights = log_weights_};
  }

 private:
  const std::vector<TokenId> tokens_ = {1, 4, 5, 9};
  const std::vector<float> log_weights_ = {std::log(1.0f), std::log(2.0f),
                                           std::log(3.0f), std::log(4.0f)};
};

TEST(TargetLaws, GatherSplitsTheLaw) {
  SparseLaws laws;
  const std::vector<TokenId> support = {0, 4, 9, 11};
  std::vector<double> inside(4, -1);
  const auto outside = laws.Gather(0, support, absl::MakeSpan(inside));
  ASSERT_TRUE(outside.ok());
  EXPECT_NEAR(*outside, 0.4, 1e-6);
  EXPECT_EQ(inside[0], 0);
  EXPECT_NEAR(inside[1], 0.2, 1e-6);
  EXPECT_NEAR(inside[2], 0.4, 1e-6);
  EXPECT_EQ(inside[3], 0);
  // Nothing is outside, to the last bit.
  const std::vector<TokenId> all = {1, 4, 5, 9};
  EXPECT_EQ(*laws.Gather(0, all, absl::MakeSpan(inside)), 0.0);
}

TEST(TargetLaws, DrawsOutsideFollowTheRestOfTheLaw) {
  SparseLaws laws;
  const std::vector<TokenId> support = {0, 4, 9};
  std::map<TokenId, int> drawn;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    GumbelChooser chooser(seed);
    ++drawn[*laws.DrawOutside(0, support, 1, chooser)];
  }
  EXPECT_EQ(drawn.size(), 2u);
  EXPECT_NEAR(drawn[1], 1000, 120);
  EXPECT_NEAR(drawn[5], 3000, 120);
}

}  // namespace
}  // namespace espalier::verifier
