// Drafting and verification schemes that look lossless but are not: each must
// fail the exact test. With false claims about drafts the walk stays exact.

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "lab/draft_scheme.h"
#include "lab/exact_distribution.h"
#include "tests/verifier/flow/flow_cases.h"
#include "tests/verifier/random_model.h"
#include "verifier/flow/flow_rule.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr double kNoticed = 1e-3;
constexpr double kExact = 1e-9;

using Kind = DraftStep::Kind;

class FlowMutants : public ::testing::Test {
 protected:
  TokenTree Draft(const DraftScheme& scheme, ChoiceTree& choices) const {
    return DraftTree(scheme, {{&first_, &second_}},
                     [&](absl::Span<const double> distribution) {
                       return choices.Choose(distribution);
                     });
  }

  double ErrorOf(const Round& round) const {
    return MaxError(EnumerateDistribution(target_, 3, round).joint,
                    JointDistribution(target_, 3));
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
      std::erase_if(tree.samples, [&known](const DraftSample& sample) {
        return !known.insert(sample.node).second;
      });
      return tree;
    };
    EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
    EXPECT_GT(ErrorOf("lvseq-gr", draft), kNoticed);
    EXPECT_LT(ErrorOf("walk", draft), kExact);
  }
}

// Adds the mean of the two distributions after the root.
int32_t AddMeanDistribution(const SequenceModel& a, const SequenceModel& b,
                            TokenTree& tree) {
  std::vector<double> mean;
  Tokens tokens;
  for (TokenId token = 0; token < a.vocab(); ++token) {
    mean.push_back(a.Distribution({})[token] + b.Distribution({})[token]);
    tokens.push_back(token);
  }
  return tree.distributions.Add(tokens, DistributionWeights(mean));
}

TEST_F(FlowMutants, MixtureOfDistributionsForEverySample) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(two_drafters_, choices);
    const int32_t mean = AddMeanDistribution(first_, second_, tree);
    for (DraftSample& sample : tree.samples) sample.distribution = mean;
    if (choices.Flip(0.5)) std::swap(tree.samples[0], tree.samples[1]);
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
  EXPECT_GT(ErrorOf("tv-gr", draft), kNoticed);
}

TEST_F(FlowMutants, MeanOfDistributionsForWhatBothProposed) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(two_drafters_, choices);
    if (tree.samples[0].node == tree.samples[1].node) {
      tree.samples = {
          {.node = 1,
           .distribution = AddMeanDistribution(first_, second_, tree)}};
    }
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
}

TEST_F(FlowMutants, DrawsWithoutReplacementTakenForIndependentOnes) {
  const DraftScheme scheme = WithoutReplacement(Branching({2}));
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(scheme, choices);
    DraftDistributions independent;
    for (int32_t i = 0; i < tree.distributions.size(); ++i) {
      independent.Add(tree.distributions[i].tokens,
                      tree.distributions[i].weights);
    }
    tree.distributions = independent;
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
    std::sort(tree.samples.begin(), tree.samples.end(),
              [&](const DraftSample& a, const DraftSample& b) {
                return tree.tokens[a.node] < tree.tokens[b.node];
              });
    return tree;
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
}

TEST_F(FlowMutants, SamplesInTheOrderOfTheTargetsTaste) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(two_draws_, choices);
    const auto q = target_.Distribution({});
    std::stable_sort(tree.samples.begin(), tree.samples.end(),
                     [&](const DraftSample& a, const DraftSample& b) {
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
  const auto p = drafter.Distribution({});
  int32_t best = 1;
  for (int32_t node = 2; node < tree.num_nodes(); ++node) {
    if (tree.parents[node] == 0 &&
        p[tree.tokens[node]] > p[tree.tokens[best]]) {
      best = node;
    }
  }
  TokenTree pruned = TokenTree::RootOnly(0);
  pruned.distributions = tree.distributions;
  std::vector<int32_t> kept(tree.num_nodes(), -1);
  kept[0] = 0;
  for (int32_t node = 1; node < tree.num_nodes(); ++node) {
    const int32_t parent = tree.parents[node];
    if (kept[parent] < 0 || (parent == 0 && node != best)) continue;
    kept[node] = pruned.Add(kept[parent], tree.tokens[node], 0.0f);
  }
  for (const DraftSample& sample : tree.samples) {
    if (kept[sample.node] > 0) {
      pruned.samples.push_back(
          {.node = kept[sample.node], .distribution = sample.distribution});
    }
  }
  return pruned;
}

TEST_F(FlowMutants, PrunedByWhatWasSampled) {
  const Shape shape = Branching({2, 1});
  const auto draft = [&](ChoiceTree& choices) {
    return Pruned(Draft(AllSampled(shape), choices), first_);
  };
  EXPECT_GT(ErrorOf("tv-rrs", draft), kNoticed);
  EXPECT_GT(ErrorOf("lv-gr", draft), kNoticed);
  EXPECT_LT(ErrorOf("walk", draft), kExact);
  // This is correct for trees without sampled nodes.
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
    const bool a_is_surer = first_.Distribution({})[a.tokens[1]] >=
                            second_.Distribution({})[b.tokens[1]];
    return a_is_surer ? a : b;
  };
  EXPECT_GT(ErrorOf("tv-sps", draft), kNoticed);
  EXPECT_GT(ErrorOf("bv", draft), kNoticed);
  EXPECT_LT(ErrorOf("walk", draft), kExact);
}

TEST_F(FlowMutants, LikeliestTokensThatPassForSampled) {
  const auto draft = [&](ChoiceTree& choices) {
    TokenTree tree = Draft(AllTop(Branching({2})), choices);
    TokenTree sampled = Draft(AllSampled(Branching({1})), choices);
    tree.distributions = sampled.distributions;
    for (DraftSample& sample : tree.samples) sample.distribution = 0;
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

// The walk verifies the tree if two draws gave the same token.
TEST_F(FlowMutants, FallsBackByWhatWasSampled) {
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

// The bonus token is from the target, not from the residual of the flow.
class BonusFromTarget final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t round, TokenSampler& sampler,
              StopDistribution& distribution) override {
    right_->Verify(tree, round, sampler, distribution);
    const std::vector<double> stop = distribution.stop;
    distribution.Clear(tree);
    distribution.stop = stop;
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
      const double chance =
          std::min(1.0, input.target[x] / input.distribution[x]);
      plan.accept[i] = unaccepted * chance;
      unaccepted *= 1 - chance;
    }
    for (size_t x = 0; x < input.distribution.size(); ++x) {
      plan.flow[x] = std::min(input.distribution[x], input.target[x]);
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
  void Verify(const FlowTree& tree, int64_t, TokenSampler&,
              StopDistribution& distribution) override {
    distribution.Clear(tree);
    std::vector<double> accept(tree.num_nodes(), 0);
    accept[0] = 1;
    for (int32_t node = 0; !tree.is_leaf(node); ++node) {
      const auto& draw = tree.draws(node)[0];
      accept[node + 1] =
          std::min(1.0, accept[node] * tree.target(node)[draw.entry] /
                            Sampled(tree, node));
    }
    double reach = 1;
    for (int32_t node = tree.num_nodes() - 1; node >= 0; --node) {
      double stop = accept[node];
      if (!tree.is_leaf(node)) {
        const auto p = tree.group(node, 0).distribution.probability;
        const auto inside = tree.OfNode(distribution.inside, node);
        double left = 0;
        for (size_t x = 0; x < p.size(); ++x) {
          inside[x] = std::max(0.0, accept[node] * inside[x] - p[x]);
          left += inside[x];
        }
        stop = std::min(1.0, left / (1 - Sampled(tree, node)));  // the bug
      }
      distribution.stop[node] = node == 0 ? reach : reach * stop;
      reach -= distribution.stop[node];
    }
  }

 private:
  static double Sampled(const FlowTree& tree, int32_t node) {
    const auto& draw = tree.draws(node)[0];
    return draw.drafted;
  }
};

TEST_F(FlowMutants, TraversalWithTheWrongNormaliser) {
  const auto error = [&](int64_t depth) {
    return ErrorOf(std::make_unique<MisnormalisedTraversal>(),
                   AllSampled(MultiChain(1, depth)));
  };
  EXPECT_LT(error(1), kExact);  // visible only in deeper trees
  EXPECT_GT(error(2), kNoticed);
}

}  // namespace
}  // namespace espalier::verifier
