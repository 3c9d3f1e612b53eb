#include <algorithm>
#include <cmath>

#include "verifier/flow/single_step.h"

namespace espalier::verifier {
namespace {

// Each draw of x passes with probability min(1, target(x) / (share p(x))); the
// first to pass is accepted. `share` in [1, k] is the smallest for which the
// k draws together do not give a token more than its target.
class KseqStep final : public SingleStep {
 public:
  void Plan(const StepInput& input, StepPlan& plan) override {
    plan.Clear(input);
    const double share = SmallestShare(input);
    const double pass = PassOfOne(input, share);
    double unaccepted = 1;
    for (size_t i = 0; i < input.draws.size(); ++i) {
      const int32_t x = input.draws[i];
      const double chance =
          std::min(1.0, input.target[x] / (share * input.distribution[x]));
      plan.accept[i] = unaccepted * chance;
      unaccepted *= 1 - chance;
    }
    if (pass == 0) return;
    const double draws_each = PassOfAny(input, pass) / pass;
    for (size_t x = 0; x < input.distribution.size(); ++x) {
      plan.flow[x] =
          std::min(input.distribution[x], input.target[x] / share) * draws_each;
    }
  }

 private:
  // Probability that a draw passes.
  static double PassOfOne(const StepInput& input, double share) {
    double pass = 0;
    for (size_t x = 0; x < input.distribution.size(); ++x) {
      pass += std::min(input.distribution[x], input.target[x] / share);
    }
    return pass;
  }

  // Probability that any of the k draws passes.
  static double PassOfAny(const StepInput& input, double pass) {
    const auto k = static_cast<double>(input.draws.size());
    return 1 - std::pow(std::max(0.0, 1 - pass), k);
  }

  static bool Fits(const StepInput& input, double share) {
    const double pass = PassOfOne(input, share);
    return PassOfAny(input, pass) <= share * pass;
  }

  // Keeps the bound that is feasible: the other would give a token more than
  // its target.
  static double SmallestShare(const StepInput& input) {
    double low = 1, high = static_cast<double>(input.draws.size());
    if (Fits(input, low)) return low;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (Fits(input, middle) ? high : low) = middle;
    }
    return high;
  }
};

}  // namespace

std::unique_ptr<SingleStep> NewKseqStep() {
  return std::make_unique<KseqStep>();
}

}  // namespace espalier::verifier
