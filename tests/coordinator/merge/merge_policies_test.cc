// Worked examples of each policy.
#include "coordinator/merge/merge_policies.h"

#include "coordinator/merge/calibration.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator::merge_policies_test {
namespace {

using ::testing::ElementsAre;

constexpr TokenId kRoot = 9;

// 9 -> 1 -> 2, and 9 -> 3
TokenTree TreeA() {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, 1, -0.5f);
  tree.Add(1, 2, -1.5f);
  tree.Add(0, 3, -2.0f);
  return tree;
}

// 9 -> 1 -> 4, and 9 -> 3 -> 5
TokenTree TreeB() {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, 1, -1.0f);
  tree.Add(1, 4, -1.25f);
  tree.Add(0, 3, -0.75f);
  tree.Add(3, 5, -3.0f);
  return tree;
}

TokenTree Merge(const MergePolicy& policy, absl::Span<const DraftedTree> trees,
                int64_t max_nodes) {
  Calibration nothing_known;
  const SessionCalibration calibration(&nothing_known);
  return policy.Merge({.root = kRoot,
                       .trees = trees,
                       .max_nodes = max_nodes,
                       .calibration = &calibration});
}

TokenTree Merge(const MergePolicy& policy, int64_t max_nodes) {
  const TokenTree a = TreeA();
  const TokenTree b = TreeB();
  const DraftedTree drafted[] = {{.drafter = 0, .tree = &a},
                                 {.drafter = 1, .tree = &b}};
  return Merge(policy, drafted, max_nodes);
}

TEST(SingleMergeTest, HasEnoughOnceTheFirstDraftersTreeIsWhole) {
  const TokenTree a = TreeA();
  const TokenTree nothing = TokenTree::RootOnly(kRoot);
  const auto has_enough = [](const DraftedTree& drafted) {
    return NewSingleMerge()->HasEnough({.root = kRoot, .trees = {&drafted, 1}});
  };
  EXPECT_TRUE(has_enough({.drafter = 0, .tree = &a}));
  EXPECT_FALSE(has_enough({.drafter = 1, .tree = &a}));
  EXPECT_FALSE(has_enough({.drafter = 0, .tree = &a, .whole = false}));
  EXPECT_FALSE(has_enough({.drafter = 0, .tree = &nothing}));
}

TEST(UnionMergeTest, KeepsEveryPathOnceLikeliestFirst) {
  const TokenTree merged = Merge(*NewUnionMerge(), 16);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 3, 4, 2, 5));
  EXPECT_THAT(merged.parents, ElementsAre(kNoParent, 0, 0, 1, 1, 2));
  EXPECT_THAT(merged.log_probs,
              ElementsAre(0.0f, -0.5f, -0.75f, -1.25f, -1.5f, -3.0f));
  EXPECT_THAT(merged.provenance, ElementsAre(3, 3, 3, 2, 1, 2));
}

TEST(UnionMergeTest, SmallBudgetKeepsTheLikeliestNodes) {
  const TokenTree merged = Merge(*NewUnionMerge(), 3);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 3, 4));
  EXPECT_THAT(merged.parents, ElementsAre(kNoParent, 0, 0, 1));
}

TEST(UnionMergeTest, DuplicatesOfOneTreeBecomeOneNodeWithBothSubtrees) {
  TokenTree duplicates = TokenTree::RootOnly(kRoot);
  duplicates.Add(0, 1, -1.0f);
  duplicates.Add(0, 1, -2.0f);
  duplicates.Add(1, 2, -3.0f);
  duplicates.Add(2, 3, -4.0f);
  const DraftedTree drafted[] = {{.drafter = 5, .tree = &duplicates}};
  const TokenTree merged = Merge(*NewUnionMerge(), drafted, 16);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 2, 3));
  EXPECT_THAT(merged.parents, ElementsAre(kNoParent, 0, 1, 1));
  EXPECT_THAT(merged.provenance, ElementsAre(32, 32, 32, 32));
}

TEST(UnionMergeTest, OfDuplicatesTheLikelierGivesTheScore) {
  for (const bool first_is_likelier : {true, false}) {
    TokenTree tree = TokenTree::RootOnly(kRoot);
    tree.Add(0, 1, first_is_likelier ? -1.0f : -2.0f);
    tree.Add(0, 1, first_is_likelier ? -2.0f : -1.0f);
    const DraftedTree drafted[] = {{.drafter = 0, .tree = &tree}};
    EXPECT_THAT(Merge(*NewUnionMerge(), drafted, 16).log_probs,
                ElementsAre(0.0f, -1.0f));
  }
}

TEST(UnionMergeTest, TheLikeliestDrafterGivesTheScoreInAnyOrder) {
  TokenTree likely = TokenTree::RootOnly(kRoot);
  likely.Add(0, 1, -1.0f);
  TokenTree unlikely = TokenTree::RootOnly(kRoot);
  unlikely.Add(0, 1, -2.0f);
  const DraftedTree likely_first[] = {{.drafter = 0, .tree = &likely},
                                      {.drafter = 1, .tree = &unlikely}};
  const DraftedTree likely_last[] = {{.drafter = 0, .tree = &unlikely},
                                     {.drafter = 1, .tree = &likely}};
  for (const auto& drafted : {likely_first, likely_last}) {
    EXPECT_THAT(Merge(*NewUnionMerge(), {drafted, 2}, 16).log_probs,
                ElementsAre(0.0f, -1.0f));
  }
}

// A weight may make a child seem likelier than its parent.
TEST(BudgetedMergeTest, NoWeightPutsAChildBeforeItsParent) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, 1, -3.0f);
  tree.Add(1, 2, -3.0f);
  const DraftedTree drafted[] = {{.drafter = 0, .tree = &tree, .weight = 10}};
  const TokenTree merged = Merge(*NewBudgetedMerge(), drafted, 16);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 2));
  EXPECT_LE(merged.log_probs[1], 0);
  EXPECT_LE(merged.log_probs[2], merged.log_probs[1]);
}

TEST(BudgetedMergeTest, ANodeHasTheLargestWeightOfItsDrafters) {
  TokenTree shared = TokenTree::RootOnly(kRoot);
  shared.Add(0, 1, -1.0f);
  TokenTree other = TokenTree::RootOnly(kRoot);
  other.Add(0, 2, -1.0f);
  for (const int heavy : {0, 1}) {
    const DraftedTree drafted[] = {
        {.drafter = 0, .tree = &shared, .weight = heavy == 0 ? 2.0 : 0.5},
        {.drafter = 1, .tree = &shared, .weight = heavy == 1 ? 2.0 : 0.5},
        {.drafter = 2, .tree = &other}};
    EXPECT_THAT(Merge(*NewBudgetedMerge(), drafted, 1).tokens,
                ElementsAre(kRoot, 1))
        << heavy;
  }
}

TEST(UnionMergeTest, TiesGoToTheEarlierParentThenTheLowerToken) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, 7, -1.0f);
  tree.Add(0, 2, -1.0f);
  tree.Add(1, 0, -1.0f);
  tree.Add(2, 8, -1.0f);
  const DraftedTree drafted[] = {{.drafter = 0, .tree = &tree}};
  const TokenTree merged = Merge(*NewUnionMerge(), drafted, 16);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 2, 7, 8, 0));
}

// 9 -> 1 sampled twice, and 9 -> 3 deterministic.
TokenTree TreeWithDistributions() {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, 1, -0.25f);
  tree.Add(0, 3, -2.0f);
  tree.distributions.Add({1, 4},
                         {kDistributionTotal / 2, kDistributionTotal / 2});
  tree.samples = {{.node = 1, .distribution = 0},
                  {.node = 2},
                  {.node = 1, .distribution = 0}};
  return tree;
}

TEST(SingleMergeTest, ATreeWithMoreSamplesThanNodesLosesItsDistributions) {
  const TokenTree sampled = TreeWithDistributions();  // three samples
  const DraftedTree drafted[] = {
      {.drafter = 0, .tree = &sampled, .trusted = true}};
  EXPECT_TRUE(Merge(*NewSingleMerge(), drafted, 3).claims_distributions());
  EXPECT_FALSE(Merge(*NewSingleMerge(), drafted, 2).claims_distributions());
}

TEST(UnionMergeTest, SamplesKeepTheirDistributionsAndStayAsMany) {
  const TokenTree a = TreeA(), sampled = TreeWithDistributions();
  const DraftedTree drafted[] = {
      {.drafter = 2, .tree = &sampled, .trusted = true},
      {.drafter = 1, .tree = &a, .trusted = true},
      {.drafter = 0, .tree = &sampled, .trusted = true}};
  const TokenTree merged = Merge(*NewUnionMerge(), drafted, 9);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 3, 2));
  EXPECT_THAT(merged.parents, ElementsAre(kNoParent, 0, 0, 1));
  EXPECT_THAT(merged.log_probs, ElementsAre(0.0f, -0.25f, -2.0f, -1.5f));
  EXPECT_THAT(merged.provenance, ElementsAre(7, 7, 7, 2));
  const std::vector<DraftSample> samples = {{.node = 1, .distribution = 0},
                                            {.node = 2},
                                            {.node = 1, .distribution = 0},
                                            {.node = 1},
                                            {.node = 3},
                                            {.node = 2},
                                            {.node = 1, .distribution = 1},
                                            {.node = 2},
                                            {.node = 1, .distribution = 1}};
  EXPECT_EQ(merged.samples, samples);
  EXPECT_EQ(merged.distributions.size(), 2);
  const TokenTree apart = Merge(*NewDisjointMerge(), drafted, 9);
  EXPECT_THAT(apart.tokens, ElementsAre(kRoot, 1, 3, 1, 2, 3, 1, 3));
  EXPECT_EQ(apart.samples.size(), samples.size());
}

// Whether they fit must not depend on how many samples were equal.
TEST(UnionMergeTest, SamplesThatMayNotFitHaveNoDistributions) {
  const TokenTree a = TreeA(), sampled = TreeWithDistributions();
  DraftedTree drafted[] = {{.drafter = 0, .tree = &a, .trusted = true},
                           {.drafter = 1, .tree = &sampled, .trusted = true}};
  EXPECT_TRUE(Merge(*NewUnionMerge(), drafted, 6).claims_distributions());
  const TokenTree cut = Merge(*NewUnionMerge(), drafted, 5);
  EXPECT_EQ(cut.num_nodes(), 4);
  EXPECT_FALSE(cut.claims_distributions());
  EXPECT_FALSE(Merge(*NewDisjointMerge(), drafted, 5).claims_distributions());
  drafted[0].trusted = false;
  EXPECT_FALSE(Merge(*NewUnionMerge(), drafted, 6).claims_distributions());
}

TEST(SingleMergeTest, TakesTheFirstDrafterAlone) {
  const TokenTree merged = Merge(*NewSingleMerge(), 16);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 2, 3));
  EXPECT_THAT(merged.provenance, ElementsAre(1, 1, 1, 1));
}

TEST(SingleMergeTest, PassesOverDraftersWithNothingToSay) {
  const TokenTree empty = TokenTree::RootOnly(kRoot);
  const TokenTree b = TreeB();
  const DraftedTree drafted[] = {{.drafter = 0, .tree = &empty},
                                 {.drafter = 1, .tree = &b}};
  const TokenTree merged = Merge(*NewSingleMerge(), drafted, 2);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 3, 1));
  EXPECT_THAT(merged.provenance, ElementsAre(2, 2, 2));
}

// phi(i) = n1 + i for the nodes of the second tree.
TEST(DisjointMergeTest, TreesStandSideBySideUnderTheRoot) {
  const TokenTree merged = Merge(*NewDisjointMerge(), 16);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 2, 3, 1, 4, 3, 5));
  EXPECT_THAT(merged.parents, ElementsAre(kNoParent, 0, 1, 0, 0, 4, 0, 6));
  EXPECT_THAT(merged.provenance, ElementsAre(3, 1, 1, 1, 2, 2, 2, 2));
  EXPECT_THAT(merged.Depths(), ElementsAre(0, 1, 2, 1, 1, 2, 1, 2));
}

TEST(DisjointMergeTest, SmallBudgetKeepsTheLikeliestNodesOfAll) {
  const TokenTree merged = Merge(*NewDisjointMerge(), 4);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 1, 4, 3));
  EXPECT_THAT(merged.parents, ElementsAre(kNoParent, 0, 0, 2, 0));
  EXPECT_THAT(merged.provenance, ElementsAre(3, 1, 2, 2, 2));
}

TEST(RouteMergeTest, TheSurestDrafterIsVerifiedAlone) {
  // Mean chances: A (.607 + .223 + .135) / 3, B (.368 + .287 + .472 + .050)
  // / 4.
  EXPECT_NEAR(RouteScore(TreeA()), 0.3217, 1e-4);
  EXPECT_NEAR(RouteScore(TreeB()), 0.2941, 1e-4);
  EXPECT_EQ(RouteScore(TokenTree::RootOnly(kRoot)), 0);
  const TokenTree merged = Merge(*NewRouteMerge(), 16);
  EXPECT_THAT(merged.tokens, ElementsAre(kRoot, 1, 2, 3));
  EXPECT_THAT(merged.provenance, ElementsAre(1, 1, 1, 1));
}

TEST(MergePolicies, WhatSortsByWhatWasSampledClaimsNoDistributions) {
  const TokenTree sampled = TreeWithDistributions();
  const DraftedTree drafted[] = {{.drafter = 0, .tree = &sampled}};
  EXPECT_FALSE(Merge(*NewRouteMerge(), drafted, 9).claims_distributions());
  EXPECT_FALSE(Merge(*NewBudgetedMerge(), drafted, 9).claims_distributions());
  EXPECT_TRUE(Merge(*NewSingleMerge(), drafted, 9).claims_distributions());
}

TEST(RouteMergeTest, TiesGoToTheFirstDrafter) {
  const TokenTree a = TreeA();
  const DraftedTree drafted[] = {{.drafter = 2, .tree = &a},
                                 {.drafter = 1, .tree = &a}};
  EXPECT_EQ(Merge(*NewRouteMerge(), drafted, 9).provenance[1], 2u);
}

}  // namespace
}  // namespace espalier::coordinator::merge_policies_test
