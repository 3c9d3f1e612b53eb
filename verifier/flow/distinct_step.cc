#include <algorithm>
#include <vector>

#include "verifier/flow/negligible.h"
#include "verifier/flow/single_step.h"

namespace espalier::verifier {
namespace {

// Terms of a flow's sum: about the cost of other steps for a node, and enough
// for three draws from a distribution of 20 tokens.
constexpr int64_t kMaxTerms = 10000;

class DistinctStep final : public SingleStep {
 public:
  void Plan(const StepInput& input, StepPlan& plan) override {
    plan.Clear(input);
    input_ = &input;
    plan_ = &plan;
    num_tested_ = NumTested(input);
    is_sampled_.assign(input.distribution.size(), false);
    if (std::ssize(residuals_) <= num_tested_) {
      residuals_.resize(num_tested_ + 1);
    }
    residuals_[0].assign(input.target.begin(), input.target.end());
    AcceptDraws();
    is_sampled_.assign(input.distribution.size(), false);
    SumFlow(0, {});
  }

 private:
  // After some draws.
  struct State {
    double distribution_left =
        1;            // mass of the distribution without the sampled tokens
    double left = 1;  // share of drafts rejected so far
    // Probability that none of the draws was accepted; in the sum over all
    // draws, also that these were made.
    double unaccepted = 1;
  };

  // Depends on sizes alone, so it may be decided before the draws are seen.
  static int64_t NumTested(const StepInput& input) {
    const int64_t size = std::ssize(input.distribution);
    int64_t tested = 1;
    for (int64_t terms = size * size;
         tested < std::ssize(input.draws) && terms <= kMaxTerms;
         terms *= size) {
      ++tested;
    }
    return tested;
  }

  // Recomputed as a sum, as a difference would lose the digits of rarely
  // sampled tokens.
  double DistributionLeft() const {
    double left = 0;
    for (size_t x = 0; x < input_->distribution.size(); ++x) {
      if (!is_sampled_[x]) left += input_->distribution[x];
    }
    return left;
  }

  double Share(size_t x, const State& state) const {
    return is_sampled_[x] ? 0
                          : input_->distribution[x] / state.distribution_left;
  }
  // Mass of the target that a draw of the level takes at token x.
  double Taken(size_t x, int64_t level, const State& state) const {
    return std::min(state.left * Share(x, state), residuals_[level][x]);
  }

  // Computes the residual of the target after the level. Returns the share of
  // drafts that it leaves.
  double Leave(int64_t level, const State& state) {
    std::vector<double>& next = residuals_[level + 1];
    next = residuals_[level];
    double left = state.left;
    for (size_t x = 0; x < next.size(); ++x) {
      const double taken = Taken(x, level, state);
      next[x] -= taken;
      left -= taken;
    }
    return left;
  }

  void AcceptDraws() {
    State state;
    for (int64_t i = 0; i < num_tested_ && state.left > kNegligible; ++i) {
      const int32_t sampled = input_->draws[i];
      const double chance =
          Taken(sampled, i, state) / (state.left * Share(sampled, state));
      plan_->accept[i] = state.unaccepted * chance;
      const double left = Leave(i, state);
      is_sampled_[sampled] = true;
      state = {.distribution_left = DistributionLeft(),
               .left = left,
               .unaccepted = state.unaccepted * (1 - chance)};
    }
  }

  // Sums over all draws of this level and of the levels below it.
  void SumFlow(int64_t level, const State& state) {
    if (level == num_tested_ || state.left <= kNegligible) return;
    const double left = Leave(level, state);
    for (size_t x = 0; x < input_->distribution.size(); ++x) {
      const double share = Share(x, state);
      if (share == 0) continue;
      const double accepted = Taken(x, level, state) / state.left;
      plan_->flow[x] += state.unaccepted * accepted;
      if (level + 1 == num_tested_ || accepted >= share) continue;
      is_sampled_[x] = true;
      SumFlow(level + 1, {.distribution_left = DistributionLeft(),
                          .left = left,
                          .unaccepted = state.unaccepted * (share - accepted)});
      is_sampled_[x] = false;
    }
  }

  const StepInput* input_ = nullptr;
  StepPlan* plan_ = nullptr;
  int64_t num_tested_ = 0;
  std::vector<bool> is_sampled_;                // [n]
  std::vector<std::vector<double>> residuals_;  // [draws + 1][n]
};

}  // namespace

std::unique_ptr<SingleStep> NewDistinctStep() {
  return std::make_unique<DistinctStep>();
}

}  // namespace espalier::verifier
