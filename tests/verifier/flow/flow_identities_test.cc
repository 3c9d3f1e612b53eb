// Identities between rules, and which rule accepts more.

#include <cmath>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/random_model.h"

namespace espalier::verifier {
namespace {

double Emitted(const std::string& rule, const Models& models,
               const SchemeCase& scheme_case) {
  return DistributionOfRule(*MakeRule(rule), models, scheme_case)
      .expected_emitted;
}

const SchemeCase kChain = {"chain", 3, 3, AllSampled(MultiChain(1, 3))};

TEST(FlowIdentities, OnChainsLayersBlocksAndTraversalAreOneRule) {
  for (const Models& models : ModelCases(3, 3)) {
    const double block = Emitted("bv", models, kChain);
    for (const char* rule :
         {"lv-sps", "lv-gr", "lv-rrs", "lv-kseq", "lvseq-sps", "trv", "gbv"}) {
      EXPECT_NEAR(Emitted(rule, models, kChain), block, 1e-12)
          << rule << ", " << models.name;
    }
  }
}

TEST(FlowIdentities, OneDrawAtEachNodeMakesStepsAlike) {
  for (const Models& models : ModelCases(3, 3)) {
    const double one = Emitted("tv-sps", models, kChain);
    for (const char* rule : {"tv-rrs", "tv-kseq", "tv-gr", "specinfer"}) {
      EXPECT_NEAR(Emitted(rule, models, kChain), one, 1e-12) << rule;
    }
  }
}

TEST(FlowIdentities, TheTargetsOwnChainIsAcceptedWhole) {
  std::mt19937_64 random(1);
  const TableModel model = RandomModel(3, 3, /*zeros=*/0, random);
  // Up to rounding of the drafter's distribution.
  const Models equal = {"equal", model, {model}};
  for (const std::string& rule : AllRules()) {
    if (!MakeRule(rule)->needs().draft_distributions) continue;
    EXPECT_NEAR(Emitted(rule, equal, kChain), 4, 1e-5) << rule;
  }
}

// Deterministic tokens: no rule beats the walk, whose acceptance length is the
// sum over nodes of the target's probability of the path to the node.
TEST(FlowIdentities, OnChosenTreesAllAcceptWhatTheWalkDoes) {
  const SchemeCase top = {"top", 3, 2, AllTop(Branching({2, 2}))};
  for (const Models& models : ModelCases(3, 2)) {
    const TokenTree tree =
        DraftTree(top.scheme, {{&models.drafters[0]}},
                  [](absl::Span<const double>) -> int64_t { return 0; });
    double most = 1;
    for (int32_t node = 1; node < tree.num_nodes(); ++node) {
      double probability = 1;
      Tokens text;
      for (TokenId token : TextOf(tree, node)) {
        probability *= models.target.Distribution(text)[token];
        text.push_back(token);
      }
      most += probability;
    }
    for (const std::string& rule : AllRules()) {
      if (rule == "bv") continue;  // reads one chain
      EXPECT_NEAR(Emitted(rule, models, top), most, 1e-12)
          << rule << ", " << models.name;
    }
  }
}

TEST(FlowIdentities, MergingDuplicatesDoesNotShorten) {
  for (const char* rule : {"tv-rrs", "tv-gr", "lv-gr", "lvseq-gr", "trv"}) {
    for (const Models& models : ModelCases(3, 2)) {
      SchemeCase scheme_case = {"complete", 3, 2,
                                AllSampled(Branching({2, 2}))};
      const double merged = Emitted(rule, models, scheme_case);
      scheme_case.scheme.merge_duplicates = false;
      EXPECT_GE(merged + 1e-12, Emitted(rule, models, scheme_case))
          << rule << ", " << models.name;
    }
  }
}

// LVseq over LV is not proved; the list is fixed.
TEST(FlowIdentities, SequentialLayersBeatLayersBeatTopDown) {
  const std::vector<SchemeCase> list = {
      {"chains", 3, 2, AllSampled(MultiChain(2, 2))},
      {"long chains", 2, 3, AllSampled(MultiChain(2, 3))},
      {"tapered", 3, 2, AllSampled(Tapered(2, 2))},
      {"complete", 3, 2, AllSampled(Branching({2, 2}))},
      {"deep", 2, 3, AllSampled(Branching({2, 1, 2}))},
      {"greedy plus one", 3, 2, GreedyPlusOne(Branching({2, 2}))},
  };
  for (const SchemeCase& scheme_case : list) {
    for (const Models& models :
         ModelCases(scheme_case.vocab, scheme_case.depth)) {
      for (const std::string step : {"gr", "rrs", "kseq"}) {
        const double tv = Emitted("tv-" + step, models, scheme_case);
        const double lv = Emitted("lv-" + step, models, scheme_case);
        const double lvseq = Emitted("lvseq-" + step, models, scheme_case);
        EXPECT_GE(lv + 1e-9, tv)
            << step << ", " << scheme_case.name << ", " << models.name;
        EXPECT_GE(lvseq + 1e-9, lv)
            << step << ", " << scheme_case.name << ", " << models.name;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::verifier
