// The exact distribution of what rules emit from the merged trees of several
// drafters.
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/merge/merge_policies.h"
#include "gtest/gtest.h"
#include "lab/draft_scheme.h"
#include "lab/exact_distribution.h"
#include "tests/verifier/flow/flow_cases.h"

namespace espalier::coordinator {
namespace {

using verifier::AllSampled;
using verifier::AllTop;
using verifier::Branching;
using verifier::DraftScheme;
using verifier::GreedyPlusOne;
using verifier::Models;
using verifier::MultiChain;
using verifier::WithoutReplacement;

constexpr int64_t kVocab = 3;
constexpr int64_t kDepth = 2;
constexpr double kExact = 1e-9;

// The drafters are independent; odd ones use the second model.
struct Case {
  std::string name;
  std::vector<DraftScheme> schemes;  // [drafters]
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> Cases() {
  const DraftScheme chain = AllSampled(MultiChain(1, 2));
  const DraftScheme distinct = WithoutReplacement(Branching({2, 1}));
  return {
      {"TwoChains", {chain, chain}},
      {"ChainAndTop", {chain, AllTop(Branching({2, 1}))}},
      {"ChainsOfOneModel", {chain, {}, chain}},
      {"TwoWithoutReplacementOfOneModel",
       {WithoutReplacement(Branching({2})), {}, distinct}},
      {"DrawsOfEachKind",
       {chain, WithoutReplacement(Branching({2})),
        GreedyPlusOne(Branching({2, 1}))}},
  };
}

TokenTree Merged(const MergePolicy& policy, const Models& models,
                 const std::vector<DraftScheme>& schemes,
                 verifier::ChoiceTree& choices) {
  std::vector<TokenTree> trees;
  for (size_t i = 0; i < schemes.size(); ++i) {
    trees.push_back(DraftTree(schemes[i], {{&models.drafters[i % 2]}},
                              [&](absl::Span<const double> distribution) {
                                return choices.Choose(distribution);
                              }));
  }
  std::vector<DraftedTree> drafted;
  for (size_t i = 0; i < trees.size(); ++i) {
    drafted.push_back(
        {.drafter = static_cast<int>(i), .tree = &trees[i], .trusted = true});
  }
  TokenTree merged =
      policy.Merge({.root = 0, .trees = drafted, .max_nodes = 64});
  EXPECT_TRUE(merged.claims_distributions());
  EXPECT_TRUE(
      merged
          .Validate(
              {.max_nodes = 64, .max_depth = kDepth, .vocab_size = kVocab})
          .ok());
  return merged;
}

class UnionWithDistributionsExact
    : public ::testing::TestWithParam<std::tuple<std::string, Case>> {
 protected:
  void Check(const MergePolicy& policy) {
    const auto& [name, c] = GetParam();
    const auto rule = verifier::MakeRule(name);
    for (const Models& models : verifier::ModelCases(kVocab, kDepth)) {
      const auto distribution = verifier::EnumerateDistribution(
          models.target, kDepth + 1,
          verifier::RuleRound(*rule, models.target,
                              [&, &schemes = c.schemes](auto& choices) {
                                return Merged(policy, models, schemes, choices);
                              }));
      EXPECT_LT(verifier::MaxError(
                    distribution.joint,
                    verifier::JointDistribution(models.target, kDepth + 1)),
                kExact)
          << models.name;
    }
  }
};

TEST_P(UnionWithDistributionsExact, OfOneNodeForEachPath) {
  Check(*NewUnionMerge());
}
TEST_P(UnionWithDistributionsExact, OfTreesSideBySide) {
  Check(*NewDisjointMerge());
}

INSTANTIATE_TEST_SUITE_P(
    RulesAndDrafters, UnionWithDistributionsExact,
    ::testing::Combine(::testing::ValuesIn(verifier::AllRules()),
                       ::testing::ValuesIn(Cases())),
    [](const auto& named) {
      return verifier::TestName(std::get<0>(named.param)) + "_" +
             std::get<1>(named.param).name;
    });

// Errors that policies must not make with sampled trees.
TEST(UnionWithDistributionsMutants, TheSurerOfTwoDrawsAlone) {
  const auto rule = verifier::MakeRule("tv-rrs");
  const Models models = verifier::ModelCases(kVocab, kDepth)[0];
  const DraftScheme chain = AllSampled(MultiChain(1, 2));
  const auto surer = [&](verifier::ChoiceTree& choices) {
    std::vector<TokenTree> trees;
    double sureness[2];
    for (int i = 0; i < 2; ++i) {
      trees.push_back(DraftTree(chain, {{&models.drafters[i]}},
                                [&](absl::Span<const double> distribution) {
                                  return choices.Choose(distribution);
                                }));
      sureness[i] = models.drafters[i].Distribution({})[trees[i].tokens[1]];
    }
    return trees[sureness[1] > sureness[0] ? 1 : 0];
  };
  const auto distribution = verifier::EnumerateDistribution(
      models.target, kDepth + 1,
      verifier::RuleRound(*rule, models.target, surer));
  EXPECT_GT(
      verifier::MaxError(distribution.joint, verifier::JointDistribution(
                                                 models.target, kDepth + 1)),
      1e-3);
}

}  // namespace
}  // namespace espalier::coordinator
