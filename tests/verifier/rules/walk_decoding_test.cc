// Whole decodings, round after round, against drafters that know the
// verifier's noise of all positions and everything emitted so far.

#include <functional>
#include <memory>
#include <ostream>
#include <random>

#include "gtest/gtest.h"
#include "lab/exact_distribution.h"
#include "tests/verifier/random_model.h"
#include "tests/verifier/shared_noise.h"
#include "tests/verifier/small_trees.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

struct Foreknowledge {
  const TableModel& target;
  const SharedNoise& noise;
  const Tokens& emitted;
  int64_t depth;  // tokens that the tree may still look ahead
};
using Adversary = std::function<TokenTree(const Foreknowledge&)>;

TokenId Root(const Foreknowledge& known) {
  return known.emitted.empty() ? 0 : known.emitted.back();
}

// Returns the very tokens that the target will draw.
TokenTree Oracle(const Foreknowledge& known) {
  TokenTree tree = TokenTree::RootOnly(Root(known));
  Tokens text = known.emitted;
  for (int32_t node = 0; node < known.depth; ++node) {
    text.push_back(
        known.noise.SampleToken(text.size(), known.target.Distribution(text)));
    tree.Add(node, text.back(), 0.0f);
  }
  return tree;
}

// Every token but the one that the target will draw.
TokenTree Saboteur(const Foreknowledge& known) {
  TokenTree tree = TokenTree::RootOnly(Root(known));
  const TokenId sampled = known.noise.SampleToken(
      known.emitted.size(), known.target.Distribution(known.emitted));
  for (TokenId token = 0; token < known.target.vocab(); ++token) {
    if (token != sampled) tree.Add(0, token, 0.0f);
  }
  return tree;
}

// Helps where the last token of a tree would be 0, sabotages elsewhere: a tree
// rule with a bias towards what the drafter likes.
TokenTree Schemer(const Foreknowledge& known) {
  TokenTree oracle = Oracle(known);
  return oracle.tokens.back() == 0 ? oracle : Saboteur(known);
}

// Returns a random tree, another one for every noise and past.
TokenTree Chameleon(const Foreknowledge& known) {
  uint64_t seed = known.emitted.size();
  for (TokenId token : known.emitted) seed = seed * 31 + token;
  for (int64_t i = 0; i < known.depth; ++i) {
    const double uniform = known.noise.uniform(known.emitted.size() + i);
    seed = seed * 1000003 + static_cast<uint64_t>(uniform * 1e6);
  }
  std::mt19937_64 random(seed);
  return RandomTree(
      {.vocab = known.target.vocab(), .depth = known.depth, .branching = 3},
      random);
}

// distributions[t]: those after every context of t tokens.
std::vector<std::vector<std::vector<double>>> DistributionsByPosition(
    const TableModel& target, int64_t length) {
  std::vector<std::vector<std::vector<double>>> distributions(length);
  std::vector<Tokens> contexts = {{}};
  for (auto& distributions_here : distributions) {
    std::vector<Tokens> longer;
    for (const Tokens& context : contexts) {
      const auto distribution = target.Distribution(context);
      distributions_here.emplace_back(distribution.begin(), distribution.end());
      for (TokenId token = 0; token < target.vocab(); ++token) {
        longer.push_back(context);
        longer.back().push_back(token);
      }
    }
    contexts = std::move(longer);
  }
  return distributions;
}

struct Named {
  const char* name;
  Adversary adversary;
};

void PrintTo(const Named& named, std::ostream* out) { *out << named.name; }

class WalkDecoding : public ::testing::TestWithParam<Named> {};

TEST_P(WalkDecoding,
       EmitsTheTargetsDistributionAgainstDraftersThatKnowTheNoise) {
  const auto rule = NewWalkRule();
  std::mt19937_64 random(11);
  for (const auto& [vocab, length] : {std::pair{2, 4}, std::pair{3, 3}}) {
    for (int trial = 0; trial < 5; ++trial) {
      // The last round may look past `length`, by one tree.
      const TableModel target =
          RandomModel(vocab, length, /*zeros=*/0.15, random);
      const auto distributions = DistributionsByPosition(target, length);
      const ExactDistribution distribution = EnumerateDistribution(
          target, length, [&, length = length](ChoiceTree& choices) {
            const SharedNoise noise(distributions, choices);
            SharedNoiseSampler sampler(noise);
            Tokens emitted;
            while (static_cast<int64_t>(emitted.size()) < length) {
              const int64_t left = length - emitted.size();
              const TokenTree tree =
                  GetParam().adversary({target, noise, emitted, left - 1});
              ModelDistributions tree_distributions(target, emitted, tree);
              const auto acceptance = rule->Accept(tree, emitted.size(),
                                                   tree_distributions, sampler);
              for (int32_t node : acceptance->path) {
                emitted.push_back(tree.tokens[node]);
              }
              emitted.push_back(acceptance->bonus_token);
            }
            EXPECT_EQ(static_cast<int64_t>(emitted.size()), length);
            return emitted;
          });
      EXPECT_LT(MaxError(distribution.joint, JointDistribution(target, length)),
                1e-9);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Adversaries, WalkDecoding,
                         ::testing::Values(Named{"Oracle", Oracle},
                                           Named{"Saboteur", Saboteur},
                                           Named{"Schemer", Schemer},
                                           Named{"Chameleon", Chameleon}),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace espalier::verifier
