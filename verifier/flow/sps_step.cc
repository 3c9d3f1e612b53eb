#include <algorithm>

#include "verifier/flow/single_step.h"

namespace espalier::verifier {
namespace {

class SpsStep final : public SingleStep {
 public:
  void Plan(const StepInput& input, StepPlan& plan) override {
    plan.Clear(input);
    const int32_t sampled = input.draws[0];
    plan.accept[0] =
        std::min(1.0, input.target[sampled] / input.distribution[sampled]);
    for (size_t x = 0; x < input.distribution.size(); ++x) {
      plan.flow[x] = std::min(input.distribution[x], input.target[x]);
    }
  }
};

}  // namespace

std::unique_ptr<SingleStep> NewSpsStep() { return std::make_unique<SpsStep>(); }

}  // namespace espalier::verifier
