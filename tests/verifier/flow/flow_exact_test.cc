// The exact distribution of what every shipped rule emits, over all drafts and
// all choices, for every way to draft.

#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"

namespace espalier::verifier {
namespace {

constexpr double kTolerance = 1e-9;

class FlowExact
    : public ::testing::TestWithParam<std::tuple<std::string, SchemeCase>> {};

TEST_P(FlowExact, EmitsTheTargetsDistribution) {
  const auto& [name, scheme_case] = GetParam();
  const auto rule = MakeRule(name);
  for (const Models& models :
       ModelCases(scheme_case.vocab, scheme_case.depth)) {
    const ExactDistribution distribution =
        DistributionOfRule(*rule, models, scheme_case);
    const auto wanted = JointDistribution(models.target, scheme_case.depth + 1);
    EXPECT_LT(MaxError(distribution.joint, wanted), kTolerance) << models.name;
  }
}

INSTANTIATE_TEST_SUITE_P(RulesAndSchemes, FlowExact,
                         ::testing::Combine(::testing::ValuesIn(AllRules()),
                                            ::testing::ValuesIn(SchemeCases())),
                         [](const auto& named) {
                           return TestName(std::get<0>(named.param)) + "_" +
                                  std::get<1>(named.param).name;
                         });

}  // namespace
}  // namespace espalier::verifier
