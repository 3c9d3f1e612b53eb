// The exact distribution of what the shipped walk emits, for every small tree.

#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "lab/exact_distribution.h"
#include "tests/verifier/random_model.h"
#include "tests/verifier/small_trees.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr double kTolerance = 1e-9;

// Probability, summed over the distinct paths of the tree, that the target
// itself says the path: the most that any lossless rule can accept of a tree
// made without knowledge of the noise.
double MostAcceptable(const TableModel& target, const TokenTree& tree) {
  std::set<Tokens> paths;
  double sum = 0;
  for (int32_t node = 1; node < tree.num_nodes(); ++node) {
    Tokens path;
    double probability = 1;
    for (int32_t step : tree.PathTo(node)) {
      probability *= target.Distribution(path)[tree.tokens[step]];
      path.push_back(tree.tokens[step]);
    }
    if (paths.insert(path).second) sum += probability;
  }
  return sum;
}

// Compares the rule's distribution on many trees with the target's, a new
// random target every few trees.
class DistributionChecker {
 public:
  explicit DistributionChecker(const TreeBounds& bounds)
      : bounds_(bounds), random_(bounds.vocab * 100 + bounds.depth) {}

  void Check(const TokenTree& tree) {
    if (trees_++ % 50 == 0) NewTarget();
    const ExactDistribution distribution = EnumerateDistribution(
        *target_, length(), RuleRound(*rule_, *target_, tree));
    worst_error_ = std::max(worst_error_, MaxError(distribution.joint, joint_));
    worst_shortfall_ =
        std::max(worst_shortfall_, std::abs(1 + MostAcceptable(*target_, tree) -
                                            distribution.expected_emitted));
  }

  double worst_error() const { return worst_error_; }
  // Distance of the accepted length from the best possible.
  double worst_shortfall() const { return worst_shortfall_; }

 private:
  int64_t length() const { return bounds_.depth + 1; }
  void NewTarget() {
    target_ = std::make_unique<TableModel>(RandomModel(
        bounds_.vocab, /*max_context=*/bounds_.depth, /*zeros=*/0.2, random_));
    joint_ = JointDistribution(*target_, length());
  }

  TreeBounds bounds_;
  std::mt19937_64 random_;
  std::unique_ptr<VerificationRule> rule_ = NewWalkRule();
  std::unique_ptr<TableModel> target_;
  std::vector<double> joint_;
  int64_t trees_ = 0;
  double worst_error_ = 0;
  double worst_shortfall_ = 0;
};

struct Case {
  TreeBounds bounds;
  int64_t trees;  // how many there are, by the multiset formula
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "vocabulary " << c.bounds.vocab << ", depth " << c.bounds.depth
       << ", branching " << c.bounds.branching;
}

class EveryTree : public ::testing::TestWithParam<Case> {};

TEST_P(EveryTree, EmitsTheTargetsDistributionAndAcceptsTheMostPossible) {
  DistributionChecker checker(GetParam().bounds);
  const int64_t trees =
      ForEachTree(GetParam().bounds,
                  [&checker](const TokenTree& tree) { checker.Check(tree); });
  EXPECT_EQ(trees, GetParam().trees);
  EXPECT_LT(checker.worst_error(), kTolerance);
  EXPECT_LT(checker.worst_shortfall(), kTolerance);
}

// With vocabulary, depth and branching 3 at once there are about 3e14 trees;
// these families are complete, RandomTrees samples what lies beyond them.
INSTANTIATE_TEST_SUITE_P(
    Families, EveryTree,
    ::testing::Values(Case{{.vocab = 3, .depth = 1, .branching = 3}, 20},
                      Case{{.vocab = 3, .depth = 2, .branching = 3}, 39711},
                      Case{{.vocab = 2, .depth = 2, .branching = 3}, 1771},
                      Case{{.vocab = 2, .depth = 3, .branching = 2}, 16836},
                      Case{{.vocab = 3, .depth = 3, .branching = 1}, 40}));

TEST(WalkRuleExact,
     RandomTreesEmitTheTargetsDistributionAndAcceptTheMostPossible) {
  const TreeBounds bounds = {.vocab = 3, .depth = 3, .branching = 3};
  DistributionChecker checker(bounds);
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) checker.Check(RandomTree(bounds, random));
  EXPECT_LT(checker.worst_error(), kTolerance);
  EXPECT_LT(checker.worst_shortfall(), kTolerance);
}

}  // namespace
}  // namespace espalier::verifier
