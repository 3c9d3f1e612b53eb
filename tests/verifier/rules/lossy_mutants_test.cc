// Rules that look lossless but are not. They show that the exact test can fail.

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "lab/exact_distribution.h"
#include "tests/verifier/random_model.h"
#include "tests/verifier/shared_noise.h"
#include "tests/verifier/small_trees.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

// ---- A published rule for trees of a drafter's most likely tokens ----------
// Every node is accepted with probability min(1, q / p), independently, as if
// it had been sampled from p; the longest accepted path is emitted, then a
// token from q at its end; if no child of the root is accepted, a token from (q
// - p)+.

struct DraftedTree {
  TokenTree tree = TokenTree::RootOnly(0);
  std::vector<Tokens> contexts = {{}};  // [num_nodes] tokens down to the node
};

void AddMostLikely(const TableModel& drafter, int64_t width, int64_t depth,
                   int32_t parent, DraftedTree& drafted) {
  if (depth == 0) return;
  const Tokens context = drafted.contexts[parent];
  const auto p = drafter.Distribution(context);
  Tokens ranked;
  for (TokenId token = 0; token < drafter.vocab(); ++token) {
    if (p[token] > 0) ranked.push_back(token);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [p](TokenId a, TokenId b) { return p[a] > p[b]; });
  const int64_t kept = std::min<int64_t>(ranked.size(), width);
  for (TokenId token : absl::MakeSpan(ranked).first(kept)) {
    const int32_t child = drafted.tree.Add(parent, token, 0.0f);
    drafted.contexts.push_back(context);
    drafted.contexts.back().push_back(token);
    AddMostLikely(drafter, width, depth - 1, child, drafted);
  }
}

std::vector<double> Residual(absl::Span<const double> q,
                             absl::Span<const double> p) {
  std::vector<double> residual(q.size());
  double sum = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    sum += residual[i] = std::max(q[i] - p[i], 0.0);
  }
  for (double& mass : residual) mass /= sum;
  return residual;
}

Tokens PublishedTreeRule(const TableModel& target, const TableModel& drafter,
                         const DraftedTree& drafted, ChoiceTree& choices) {
  const auto& [tree, contexts] = drafted;
  std::vector<bool> stands = {true};  // with all its ancestors
  bool any_first = false;
  int32_t longest = 0;
  for (int32_t node = 1; node < tree.num_nodes(); ++node) {
    const Tokens& context = contexts[tree.parents[node]];
    const TokenId token = tree.tokens[node];
    const double ratio = target.Distribution(context)[token] /
                         drafter.Distribution(context)[token];
    const bool accepted = choices.Flip(std::min(1.0, ratio));
    stands.push_back(accepted && stands[tree.parents[node]]);
    if (stands[node]) any_first = true;
    if (stands[node] && contexts[node].size() > contexts[longest].size()) {
      longest = node;
    }
  }
  Tokens emitted = contexts[longest];
  const auto q = target.Distribution(emitted);
  emitted.push_back(static_cast<TokenId>(
      any_first ? choices.Choose(q)
                : choices.Choose(Residual(q, drafter.Distribution(Tokens{})))));
  return emitted;
}

TEST(LossyMutants, PublishedTreeRuleOfIndependentRatiosIsCaught) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 10; ++trial) {
    const TableModel target = RandomModel(3, 2, /*zeros=*/0, random);
    const TableModel drafter = RandomModel(3, 2, /*zeros=*/0, random);
    DraftedTree drafted;
    AddMostLikely(drafter, /*width=*/2, /*depth=*/2, /*parent=*/0, drafted);
    const ExactDistribution distribution =
        EnumerateDistribution(target, 3, [&](ChoiceTree& choices) {
          return PublishedTreeRule(target, drafter, drafted, choices);
        });
    EXPECT_GT(MaxError(distribution.joint, JointDistribution(target, 3)), 1e-3);
  }
}

// ---- A ratio test on drafts sampled with the verifier's own noise
// ------------

TEST(LossyMutants, RatioTestOnTheVerifiersOwnNoiseIsCaught) {
  std::mt19937_64 random(4);
  double worst_error = 0;
  for (int trial = 0; trial < 10; ++trial) {
    const TableModel target = RandomModel(5, 0, /*zeros=*/0, random);
    const TableModel drafter = RandomModel(5, 0, /*zeros=*/0, random);
    const auto q = target.Distribution({});
    const auto p = drafter.Distribution({});
    const ExactDistribution distribution =
        EnumerateDistribution(target, 1, [&](ChoiceTree& choices) {
          const SharedNoise noise(
              {{{q.begin(), q.end()}, {p.begin(), p.end()}, Residual(q, p)}},
              choices);
          const TokenId draft = noise.SampleToken(0, p);
          const bool accepted =
              choices.Flip(std::min(1.0, q[draft] / p[draft]));
          // The bug: a rejected draft is replaced by a draw from the same
          // noise, which is not independent once the drafted token is known.
          return Tokens{accepted ? draft
                                 : noise.SampleToken(0, Residual(q, p))};
        });
    worst_error = std::max(worst_error, MaxError(distribution.joint,
                                                 JointDistribution(target, 1)));
  }
  EXPECT_GT(worst_error, 1e-2);
}

// ---- A walk that follows the first of several duplicates only
// -------------------

class FirstMatchWalk final : public VerificationRule {
 public:
  absl::StatusOr<Acceptance> Accept(const TokenTree& tree,
                                    int64_t first_position,
                                    TargetDistributions& distributions,
                                    TokenSampler& sampler) override {
    int32_t node = 0;
    for (int64_t position = first_position;; ++position) {
      const TokenId token =
          sampler.SampleToken(position, *distributions.DistributionAt(node));
      int32_t child = node + 1;
      while (child < tree.num_nodes() &&
             (tree.parents[child] != node || tree.tokens[child] != token)) {
        ++child;
      }
      if (child == tree.num_nodes())
        return Acceptance{tree.PathTo(node), token};
      node = child;
    }
  }
};

TEST(WalkVariants, FirstMatchIsExactButAcceptsLessOfRepeatedSiblings) {
  // Two drafters side by side: 0 -> 1 and 0 -> 2 below the same root.
  TokenTree tree = TokenTree::RootOnly(0);
  const int32_t first = tree.Add(0, 0, 0.0f);
  const int32_t second = tree.Add(0, 0, 0.0f);
  tree.Add(first, 1, 0.0f);
  tree.Add(second, 2, 0.0f);

  std::mt19937_64 random(5);
  const TableModel target = RandomModel(3, 2, /*zeros=*/0, random);
  const auto walk = NewWalkRule();
  FirstMatchWalk first_match;
  const ExactDistribution all =
      EnumerateDistribution(target, 3, RuleRound(*walk, target, tree));
  const ExactDistribution fewer =
      EnumerateDistribution(target, 3, RuleRound(first_match, target, tree));

  EXPECT_LT(MaxError(all.joint, JointDistribution(target, 3)), 1e-9);
  EXPECT_LT(MaxError(fewer.joint, JointDistribution(target, 3)), 1e-9);
  // What it loses is the second subtree, of probability q(0) q(2 | 0).
  EXPECT_NEAR(all.expected_emitted - fewer.expected_emitted,
              target.Distribution({})[0] * target.Distribution({0})[2], 1e-9);
}

}  // namespace
}  // namespace espalier::verifier
