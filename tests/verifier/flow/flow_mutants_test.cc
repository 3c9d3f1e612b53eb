// Ways to draft and to verify that look right and are not: each must fail the
// exact test. Those that lie about drafts leave the walk exact.

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/random_model.h"
#include "verifier/flow/flow_rule.h"
#include "verifier/lab/draft_scheme.h"
#include "verifier/lab/exact_law.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr double kNoticed = 1e-3;
constexpr double kExact = 1e-9;

using Kind = DraftStep::Kind;

class FlowMutants : public ::testing::Test {
 protected:
  TokenTree Draft(const DraftScheme& scheme, ChoiceTree& choices) const {
    return DraftTree(
        scheme, {{&first_, &second_}},
        [&](absl::Span<const double> law) { return choices.Choose(law); });
  }

  double ErrorOf(const Round& round) const {
    return MaxError(EnumerateLaw(target_, 3, round).joint,
                    JointLaw(target_, 3));
  }
  double ErrorOf(const std::string& rule, const Drafting& draft) const {
    return ErrorOf(RuleRound(*MakeRule(rule), target_, draft));
  }
  double ErrorOf(std::unique_ptr<TreeVerifier> mutant,
                 const DraftScheme& scheme) const {
    const auto rule = NewFlowRule(std::move(mutant));
    return ErrorOf(RuleRound(*rule, target_, [&](ChoiceTree& choices) {
      return Draft(scheme, choices);
    }));
  }

  std::mt19937_64 random_{17};
  const TableModel target_ = RandomModel(3, 2, /*zeros=*/0, random_);
  const TableModel first_ = RandomModel(3, 2, /*zeros=*/0, random_);
  const TableModel second_ = RandomModel(3, 2, /*zeros=*/0, random_);
  const DraftScheme two_draws_ = AllSampled(Branching({2}));
  const DraftScheme two_drafters_ = {.steps = {{}, {.drafter = 1}}};
};

// ---- Lies about drafts
// -------------------------------------------------------

TEST_F(FlowMutants, DroppedDuplicates) {
  for (const DraftScheme& scheme : {two_draws_, two_drafters_}) {
    const auto draft = [&](ChoiceTree& choices) {
      TokenTree tree = Draft(scheme, choices);
      std::set<int32_t> known;
      std::erase_if(tree.slots, [&known](const DraftSlot& slot) {
        return !known.insert(slot.node).second;
      });
      return tree;
    };
    EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
    EXPECT_GT(ErrorOf("lvseq-gr", draft), kNoticed);
    EXPECT_LT(ErrorOf("walk", draft), kExact);
  }
}

// The mean of the two laws after the root.
int32_t AddMeanLaw(const SequenceModel& a, const SequenceModel& b,
                   TokenTree& tree) {
  std::vector<double> mean;
  Tokens tokens;
  for (TokenId token = 0; token < a.vocab(); ++token) {
    mean.push_back(a.Law({})[token] + b.Law({})[token]);
    tokens.push_back(token);
  }
  return tree.laws.Add(tokens, LawWeights(mean));
}

TEST_F(FlowMutants, MixtureOfLawsForEverySlot) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(two_drafters_, choices);
    const int32_t mean = AddMeanLaw(first_, second_, tree);
    for (DraftSlot& slot : tree.slots) slot.law = mean;
    if (choices.Flip(0.5)) std::swap(tree.slots[0], tree.slots[1]);
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
  EXPECT_GT(ErrorOf("tv-gr", draft), kNoticed);
}

TEST_F(FlowMutants, MeanOfLawsForWhatBothProposed) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(two_drafters_, choices);
    if (tree.slots[0].node == tree.slots[1].node) {
      tree.slots = {{.node = 1, .law = AddMeanLaw(first_, second_, tree)}};
    }
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
}

TEST_F(FlowMutants, DrawsWithoutReplacementTakenForIndependentOnes) {
  const DraftScheme scheme = WithoutReplacement(Branching({2}));
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(scheme, choices);
    DraftLaws independent;
    for (int32_t i = 0; i < tree.laws.size(); ++i) {
      independent.Add(tree.laws[i].tokens, tree.laws[i].weights);
    }
    tree.laws = independent;
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
  EXPECT_GT(ErrorOf("lvseq-gr", draft), kNoticed);
  EXPECT_GT(ErrorOf("trv", draft), kNoticed);
}

TEST_F(FlowMutants, DrawsWithoutReplacementOutOfOrder) {
  const DraftScheme scheme = WithoutReplacement(Branching({2}));
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(scheme, choices);
    std::sort(tree.slots.begin(), tree.slots.end(),
              [&](const DraftSlot& a, const DraftSlot& b) {
                return tree.tokens[a.node] < tree.tokens[b.node];
              });
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
}

TEST_F(FlowMutants, SlotsInTheOrderOfTheTargetsTaste) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(two_draws_, choices);
    const auto q = target_.Law({});
    std::stable_sort(tree.slots.begin(), tree.slots.end(),
                     [&](const DraftSlot& a, const DraftSlot& b) {
                       return q[tree.tokens[a.node]] > q[tree.tokens[b.node]];
                     });
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
  EXPECT_GT(ErrorOf("lv-kseq", draft), kNoticed);
  // These do not look at the order.
  EXPECT_LT(ErrorOf("tv-gr", draft), kExact);
  EXPECT_LT(ErrorOf("specinfer", draft), kExact);
}

// Keeps the likeliest child of the root, and what is below.
TokenTree Pruned(const TokenTree& tree, const SequenceModel& drafter) {
  const auto p = drafter.Law({});
  int32_t best = 1;
  for (int32_t node = 2; node < tree.num_nodes(); ++node) {
    if (tree.parents[node] == 0 &&
        p[tree.tokens[node]] > p[tree.tokens[best]]) {
      best = node;
    }
  }
  TokenTree pruned = TokenTree::RootOnly(0);
  pruned.laws = tree.laws;
  std::vector<int32_t> kept(tree.num_nodes(), -1);
  kept[0] = 0;
  for (int32_t node = 1; node < tree.num_nodes(); ++node) {
    const int32_t parent = tree.parents[node];
    if (kept[parent] < 0 || (parent == 0 && node != best)) continue;
    kept[node] = pruned.Add(kept[parent], tree.tokens[node], 0.0f);
  }
  for (const DraftSlot& slot : tree.slots) {
    if (kept[slot.node] > 0) {
      pruned.slots.push_back({.node = kept[slot.node], .law = slot.law});
    }
  }
  return pruned;
}

TEST_F(FlowMutants, PrunedByWhatWasDrawn) {
  const Shape shape = Branching({2, 1});
  const auto draft = [&](ChoiceTree& choices) {
    return Pruned(Draft(AllSampled(shape), choices), first_);
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
  EXPECT_GT(ErrorOf("lv-gr", draft), kNoticed);
  EXPECT_LT(ErrorOf("walk", draft), kExact);
  // Nothing is wrong with that where nothing was drawn.
  const auto chosen = [&](ChoiceTree& choices) {
    return Pruned(Draft(AllTop(shape), choices), first_);
  };
  EXPECT_LT(ErrorOf("lv-gr", chosen), kExact);
}

TEST_F(FlowMutants, RoutedToTheChainThatWasSurer) {
  const DraftScheme by_first = AllSampled(MultiChain(1, 1));
  const DraftScheme by_second = {.steps = {{.drafter = 1}}};
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree a = Draft(by_first, choices), b = Draft(by_second, choices);
    const bool a_is_surer =
        first_.Law({})[a.tokens[1]] >= second_.Law({})[b.tokens[1]];
    return a_is_surer ? a : b;
  };
  EXPECT_GT(ErrorOf("tv-sps", draft), kNoticed);
  EXPECT_GT(ErrorOf("bv", draft), kNoticed);
  EXPECT_LT(ErrorOf("walk", draft), kExact);
}

TEST_F(FlowMutants, LikeliestTokensThatPassForDrawn) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(AllTop(Branching({2})), choices);
    TokenTree drawn = Draft(AllSampled(Branching({1})), choices);
    tree.laws = drawn.laws;
    for (DraftSlot& slot : tree.slots) slot.law = 0;
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
  EXPECT_GT(ErrorOf("lvseq-gr", draft), kNoticed);
}

// ---- Wrong rules
// ---------------------------------------------------------------

TEST_F(FlowMutants, LongestOfPathsThatWereVerifiedApart) {
  const DraftScheme chain = AllSampled(MultiChain(1, 2));
  const auto rule = MakeRule("tv-sps");
  const Round verify = RuleRound(*rule, target_, [&](ChoiceTree& choices) {
    return Draft(chain, choices);
  });
  EXPECT_LT(ErrorOf(verify), kExact);
  EXPECT_GT(ErrorOf([&](ChoiceTree& choices) {
              Tokens a = verify(choices), b = verify(choices);
              return a.size() >= b.size() ? a : b;
            }),
            kNoticed);
}

// The walk stands in where two draws were alike.
TEST_F(FlowMutants, FallsBackByWhatWasDrawn) {
  const auto rule = MakeRule("tv-rrs");
  const auto walk = NewWalkRule();
  const auto draft = [&](ChoiceTree& choices) {
    return Draft(two_draws_, choices);
  };
  EXPECT_GT(ErrorOf([&](ChoiceTree& choices) {
              const TokenTree tree = draft(choices);
              VerificationRule& used = tree.num_nodes() == 2 ? *walk : *rule;
              return RuleRound(used, target_, tree)(choices);
            }),
            kNoticed);
}

// The bonus token is the target's, not what the flow has left of it.
class BonusFromTarget final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t round, Chooser& chooser,
              StopLaw& law) override {
    right_->Verify(tree, round, chooser, law);
    const std::vector<double> stop = law.stop;
    law.Clear(tree);
    law.stop = stop;
  }

 private:
  std::unique_ptr<TreeVerifier> right_ = NewLayered(NewSpsStep());
};

TEST_F(FlowMutants, BonusFromTheTargetInsteadOfTheResidual) {
  EXPECT_GT(ErrorOf(std::make_unique<BonusFromTarget>(),
                    AllSampled(MultiChain(1, 2))),
            kNoticed);
}

// The smallest share, which gives tokens more than their target.
class GreedyKseq final : public SingleStep {
 public:
  void Plan(const StepInput& input, StepPlan& plan) override {
    plan.Clear(input);
    double unaccepted = 1, pass = 0;
    for (size_t i = 0; i < input.draws.size(); ++i) {
      const int32_t x = input.draws[i];
      const double chance = std::min(1.0, input.target[x] / input.law[x]);
      plan.accept[i] = unaccepted * chance;
      unaccepted *= 1 - chance;
    }
    for (size_t x = 0; x < input.law.size(); ++x) {
      plan.flow[x] = std::min(input.law[x], input.target[x]);
      pass += plan.flow[x];
    }
    for (double& flow : plan.flow) flow *= 2 - pass;  // of two draws
  }
};

TEST_F(FlowMutants, KseqWithTheLowerEndOfTheShare) {
  EXPECT_GT(ErrorOf(NewTopDown(std::make_unique<GreedyKseq>()), two_draws_),
            kNoticed);
}

// Traversal of a chain, with the normaliser of a public re-implementation.
class MisnormalisedTraversal final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t, Chooser&, StopLaw& law) override {
    law.Clear(tree);
    std::vector<double> accept(tree.num_nodes(), 0);
    accept[0] = 1;
    for (int32_t node = 0; !tree.is_leaf(node); ++node) {
      const auto& draw = tree.attempts(node)[0];
      accept[node + 1] =
          std::min(1.0, accept[node] * tree.target(node)[draw.entry] /
                            Drawn(tree, node));
    }
    double reach = 1;
    for (int32_t node = tree.num_nodes() - 1; node >= 0; --node) {
      double stop = accept[node];
      if (!tree.is_leaf(node)) {
        const auto p = tree.group(node, 0).law.probability;
        const auto inside = tree.OfNode(law.inside, node);
        double left = 0;
        for (size_t x = 0; x < p.size(); ++x) {
          inside[x] = std::max(0.0, accept[node] * inside[x] - p[x]);
          left += inside[x];
        }
        stop = std::min(1.0, left / (1 - Drawn(tree, node)));  // the bug
      }
      law.stop[node] = node == 0 ? reach : reach * stop;
      reach -= law.stop[node];
    }
  }

 private:
  static double Drawn(const FlowTree& tree, int32_t node) {
    const auto& draw = tree.attempts(node)[0];
    return draw.drafted;
  }
};

TEST_F(FlowMutants, TraversalWithTheWrongNormaliser) {
  const auto error = [&](int64_t depth) {
    return ErrorOf(std::make_unique<MisnormalisedTraversal>(),
                   AllSampled(MultiChain(1, depth)));
  };
  EXPECT_LT(error(1), kExact);  // it takes depth to see it
  EXPECT_GT(error(2), kNoticed);
}

}  // namespace
}  // namespace espalier::verifier
