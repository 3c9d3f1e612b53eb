#include <algorithm>

#include "verifier/flow/negligible.h"
#include "verifier/flow/single_step.h"

namespace espalier::verifier {
namespace {

class RrsStep final : public SingleStep {
 public:
  // The residual stays unnormalised, so nothing is divided by a vanishing sum.
  void Plan(const StepInput& input, StepPlan& plan) override {
    plan.Clear(input);
    residual_.assign(input.target.begin(), input.target.end());
    double left = 1;        // expected share of drafts with all rejected so far
    double unaccepted = 1;  // the same for the current draws
    for (size_t i = 0; i < input.draws.size() && left > kNegligible; ++i) {
      const int32_t sampled = input.draws[i];
      const double offered = left * input.distribution[sampled];
      const double chance = std::min(1.0, residual_[sampled] / offered);
      plan.accept[i] = unaccepted * chance;
      unaccepted *= 1 - chance;
      const double share = left;
      for (size_t x = 0; x < input.distribution.size(); ++x) {
        const double taken =
            std::min(share * input.distribution[x], residual_[x]);
        plan.flow[x] += taken;
        residual_[x] -= taken;
        left -= taken;
      }
    }
  }

 private:
  std::vector<double> residual_;  // [n]
};

}  // namespace

std::unique_ptr<SingleStep> NewRrsStep() { return std::make_unique<RrsStep>(); }

}  // namespace espalier::verifier
