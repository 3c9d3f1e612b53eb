#include <algorithm>
#include <vector>

#include "verifier/flow/negligible.h"
#include "verifier/flow/single_step.h"

namespace espalier::verifier {
namespace {

// Of a flow's sum: about what other steps take for a node, and all that three
// draws from a law of 20 tokens need.
constexpr int64_t kMostTerms = 10000;

class DistinctStep final : public SingleStep {
 public:
  void Plan(const StepInput& input, StepPlan& plan) override {
    plan.Clear(input);
    input_ = &input;
    plan_ = &plan;
    num_tested_ = NumTested(input);
    is_drawn_.assign(input.law.size(), false);
    if (std::ssize(residuals_) <= num_tested_) {
      residuals_.resize(num_tested_ + 1);
    }
    residuals_[0].assign(input.target.begin(), input.target.end());
    AcceptDraws();
    is_drawn_.assign(input.law.size(), false);
    SumFlow(0, {});
  }

 private:
  // After some draws.
  struct State {
    double law_left = 1;  // of the law, without the tokens drawn
    double left = 1;      // share of drafts that would have been rejected
    // Probability that these draws were made, for a sum over all, and none
    // accepted.
    double unaccepted = 1;
  };

  // Depends on sizes alone, so it may be decided before the draws are seen.
  static int64_t NumTested(const StepInput& input) {
    const int64_t size = std::ssize(input.law);
    int64_t tested = 1;
    for (int64_t terms = size * size;
         tested < std::ssize(input.draws) && terms <= kMostTerms;
         terms *= size) {
      ++tested;
    }
    return tested;
  }

  // Summed anew, as a difference would lose the digits of what is rarely drawn.
  double LawLeft() const {
    double left = 0;
    for (size_t x = 0; x < input_->law.size(); ++x) {
      if (!is_drawn_[x]) left += input_->law[x];
    }
    return left;
  }

  double Share(size_t x, const State& state) const {
    return is_drawn_[x] ? 0 : input_->law[x] / state.law_left;
  }
  // Mass of the target that a draw of the level takes with token x.
  double Taken(size_t x, int64_t level, const State& state) const {
    return std::min(state.left * Share(x, state), residuals_[level][x]);
  }

  // What the level leaves of the target to the next. Returns what it leaves of
  // the drafts.
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
      const int32_t drawn = input_->draws[i];
      const double chance =
          Taken(drawn, i, state) / (state.left * Share(drawn, state));
      plan_->accept[i] = state.unaccepted * chance;
      const double left = Leave(i, state);
      is_drawn_[drawn] = true;
      state = {.law_left = LawLeft(),
               .left = left,
               .unaccepted = state.unaccepted * (1 - chance)};
    }
  }

  // Over all draws of this level and of those below it.
  void SumFlow(int64_t level, const State& state) {
    if (level == num_tested_ || state.left <= kNegligible) return;
    const double left = Leave(level, state);
    for (size_t x = 0; x < input_->law.size(); ++x) {
      const double share = Share(x, state);
      if (share == 0) continue;
      const double accepted = Taken(x, level, state) / state.left;
      plan_->flow[x] += state.unaccepted * accepted;
      if (level + 1 == num_tested_ || accepted >= share) continue;
      is_drawn_[x] = true;
      SumFlow(level + 1, {.law_left = LawLeft(),
                          .left = left,
                          .unaccepted = state.unaccepted * (share - accepted)});
      is_drawn_[x] = false;
    }
  }

  const StepInput* input_ = nullptr;
  StepPlan* plan_ = nullptr;
  int64_t num_tested_ = 0;
  std::vector<bool> is_drawn_;                  // [n]
  std::vector<std::vector<double>> residuals_;  // [draws + 1][n]
};

}  // namespace

std::unique_ptr<SingleStep> NewDistinctStep() {
  return std::make_unique<DistinctStep>();
}

}  // namespace espalier::verifier
