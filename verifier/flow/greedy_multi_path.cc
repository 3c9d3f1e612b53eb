#include <algorithm>
#include <numeric>
#include <vector>

#include "verifier/flow/block_chain.h"

namespace espalier::verifier {
namespace {

class GreedyMultiPath final : public TreeVerifier {
 public:
  // Only the first level is checked: the shape deeper down may depend on
  // sampled tokens, which must not decide the rule.
  bool Handles(const FlowTree& tree) const override {
    return tree.num_groups(0) == 1 && tree.deterministic(0).empty() &&
           tree.group(0, 0).how == SampleDependence::kIndependent;
  }

  bool merges_duplicates() const override { return true; }

  void Verify(const FlowTree& tree, int64_t, TokenSampler&,
              StopDistribution& distribution) override {
    num_chains_ = static_cast<int64_t>(tree.draws(0).size());
    below_ = 0;
    equal_ = 1;
    chain_.Begin(tree);
    int64_t left = num_chains_;  // that begin with the picked tokens
    while (left > 0) left = Step(tree, chain_.last_node(), left);
    chain_.StopFromBelow(distribution);
  }

 private:
  // Follows the draw whose token has the largest target / draft ratio, if all
  // remaining chains continue. Returns how many of them have that token.
  int64_t Step(const FlowTree& tree, int32_t node, int64_t left) {
    if (tree.num_groups(node) == 0) return 0;
    const FlowTree::Group group = tree.group(node, 0);
    if (std::ssize(group.draws) < left) return 0;
    if (group.how != SampleDependence::kIndependent) return 0;
    const auto draws = group.draws.first(left);
    RankTokens(group.distribution, tree.target(node));
    const FlowTree::Draw& best = *std::max_element(
        draws.begin(), draws.end(), [this](const auto& a, const auto& b) {
          return rank_[a.distribution_entry] < rank_[b.distribution_entry];
        });
    const double ranked_below =
        below_ + equal_ * lower_[best.distribution_entry];
    DistributionOfPick(group.distribution);
    chain_.Append(
        best, {.entries = group.distribution.entries, .probability = picked_});
    equal_ *= group.distribution.probability[best.distribution_entry];
    below_ = ranked_below;
    return std::count_if(draws.begin(), draws.end(), [&best](const auto& draw) {
      return draw.distribution_entry == best.distribution_entry;
    });
  }

  // Sorts the tokens by target / distribution, ties by token.
  void RankTokens(const FlowTree::Distribution& distribution,
                  absl::Span<const double> target) {
    const size_t size = distribution.entries.size();
    order_.resize(size);
    std::iota(order_.begin(), order_.end(), 0);
    const auto ratio = [&](int32_t i) {
      return target[distribution.entries[i]] / distribution.probability[i];
    };
    std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
      const double ra = ratio(a), rb = ratio(b);
      return ra != rb ? ra < rb : a < b;
    });
    rank_.resize(size);
    lower_.resize(size);
    double sum = 0;
    for (size_t r = 0; r < size; ++r) {
      rank_[order_[r]] = static_cast<int32_t>(r);
      lower_[order_[r]] = sum;
      sum += distribution.probability[order_[r]];
    }
  }

  // Distribution of the picked chain's next token x, given its tokens so far,
  // which of K chains ranked highest: with chances `below` that a chain ranks
  // below the tokens so far, `equal` that it has them,
  //   (high^K - low^K) / (all^K - below^K),
  //   low = below + equal * lower(x), high = low + equal * p(x),
  //   all = below + equal.
  // Both differences are divided by those of the bases, which loses no digits.
  void DistributionOfPick(const FlowTree::Distribution& distribution) {
    picked_.clear();
    const double any = PowersBetween(below_, below_ + equal_);
    for (size_t i = 0; i < distribution.entries.size(); ++i) {
      const double low = below_ + equal_ * lower_[i];
      const double high = low + equal_ * distribution.probability[i];
      picked_.push_back(distribution.probability[i] * PowersBetween(low, high) /
                        any);
    }
  }

  // (b^K - a^K) / (b - a)
  double PowersBetween(double a, double b) const {
    double sum = 0, power_of_a = 1;
    for (int64_t i = 0; i < num_chains_; ++i) {
      sum = sum * b + power_of_a;
      power_of_a *= a;
    }
    return sum;
  }

  BlockChain chain_;
  int64_t num_chains_ = 1;
  double below_ = 0, equal_ = 1;
  std::vector<int32_t> order_;  // [distribution] tokens by rank
  std::vector<int32_t> rank_;   // [distribution]
  std::vector<double>
      lower_;  // [distribution] probability of tokens ranked lower
  std::vector<double> picked_;  // [distribution]
};

}  // namespace

std::unique_ptr<TreeVerifier> NewGreedyMultiPath() {
  return std::make_unique<GreedyMultiPath>();
}

}  // namespace espalier::verifier
