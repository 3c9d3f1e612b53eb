// Rules that read draft distributions need only the target's probabilities of
// the tree's tokens, and a draw from the others.
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "verifier/rules/token_samplers.h"

namespace espalier::verifier {
namespace {

// Gives what is gathered, and refuses whole distributions.
class FarDistributions final : public TargetDistributions {
 public:
  explicit FarDistributions(TargetDistributions& near) : near_(near) {}

  absl::StatusOr<TargetDistribution> DistributionAt(int32_t) override {
    return absl::InternalError("the distribution is far away");
  }
  absl::StatusOr<double> Gather(int32_t node, absl::Span<const TokenId> support,
                                absl::Span<double> inside) override {
    return near_.Gather(node, support, inside);
  }
  absl::StatusOr<TokenId> SampleOutside(int32_t node,
                                        absl::Span<const TokenId> support,
                                        int64_t round,
                                        TokenSampler& sampler) override {
    return near_.SampleOutside(node, support, round, sampler);
  }

 private:
  TargetDistributions& near_;
};

class GatheredDistributions
    : public ::testing::TestWithParam<std::tuple<std::string, SchemeCase>> {};

TEST_P(GatheredDistributions, AreEnoughForEveryRule) {
  const auto& [name, scheme_case] = GetParam();
  const auto rule = MakeRule(name);
  if (rule->needs().logits != LogitNeed::kGathered) {
    GTEST_SKIP() << "gathers no logits";
  }
  const Tokens committed;
  ForEachDraftTree(scheme_case, [&](const Models& models, uint64_t seed,
                                    const TokenTree& tree) {
    if (!rule->UnsupportedReason(tree).empty()) return;
    ModelDistributions near(models.target, committed, tree);
    FarDistributions far(near);
    GumbelSampler one(seed), other(seed);
    const auto expected = rule->Accept(tree, 1, near, one);
    const auto accepted = rule->Accept(tree, 1, far, other);
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    EXPECT_EQ(accepted->path, expected->path);
    EXPECT_EQ(accepted->bonus_token, expected->bonus_token);
  });
}

INSTANTIATE_TEST_SUITE_P(RulesAndSchemes, GatheredDistributions,
                         ::testing::Combine(::testing::ValuesIn(AllRules()),
                                            ::testing::ValuesIn(SchemeCases())),
                         [](const auto& named) {
                           return TestName(std::get<0>(named.param)) + "_" +
                                  std::get<1>(named.param).name;
                         });

// A distribution with some tokens filtered away.
class SparseDistributions final : public TargetDistributions {
 public:
  absl::StatusOr<TargetDistribution> DistributionAt(int32_t) override {
    return TargetDistribution{.tokens = tokens_, .log_weights = log_weights_};
  }

 private:
  const std::vector<TokenId> tokens_ = {1, 4, 5, 9};
  const std::vector<float> log_weights_ = {std::log(1.0f), std::log(2.0f),
                                           std::log(3.0f), std::log(4.0f)};
};

TEST(TargetDistributions, GatherSplitsTheDistribution) {
  SparseDistributions distributions;
  const std::vector<TokenId> support = {0, 4, 9, 11};
  std::vector<double> inside(4, -1);
  const auto outside = distributions.Gather(0, support, absl::MakeSpan(inside));
  ASSERT_TRUE(outside.ok());
  EXPECT_NEAR(*outside, 0.4, 1e-6);
  EXPECT_EQ(inside[0], 0);
  EXPECT_NEAR(inside[1], 0.2, 1e-6);
  EXPECT_NEAR(inside[2], 0.4, 1e-6);
  EXPECT_EQ(inside[3], 0);
  // The weight outside is exactly 0.
  const std::vector<TokenId> all = {1, 4, 5, 9};
  EXPECT_EQ(*distributions.Gather(0, all, absl::MakeSpan(inside)), 0.0);
}

TEST(TargetDistributions, DrawsOutsideFollowTheRestOfTheDistribution) {
  SparseDistributions distributions;
  const std::vector<TokenId> support = {0, 4, 9};
  std::map<TokenId, int> sampled;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    GumbelSampler sampler(seed);
    ++sampled[*distributions.SampleOutside(0, support, 1, sampler)];
  }
  EXPECT_EQ(sampled.size(), 2u);
  EXPECT_NEAR(sampled[1], 1000, 120);
  EXPECT_NEAR(sampled[5], 3000, 120);
}

}  // namespace
}  // namespace espalier::verifier
