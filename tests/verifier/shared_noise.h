#ifndef ESPALIER_TESTS_VERIFIER_SHARED_NOISE_H_
#define ESPALIER_TESTS_VERIFIER_SHARED_NOISE_H_

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "verifier/lab/exact_law.h"

namespace espalier::verifier {

// Noise that verifier and drafter share, small enough to enumerate: one uniform
// number per position, from which every law is drawn by its inverse CDF. The
// cumulative sums of all laws that may meet at a position cut (0, 1) into
// cells; within one the draws are the same, so a cell is an outcome.
class SharedNoise {
 public:
  // `laws`: [positions][laws that may be drawn from there].
  SharedNoise(const std::vector<std::vector<std::vector<double>>>& laws,
              ChoiceTree& choices) {
    for (const auto& laws_here : laws) {
      std::vector<double> cuts = {0, 1};
      for (const auto& law : laws_here) {
        double sum = 0;
        for (double probability : law) cuts.push_back(sum += probability);
      }
      std::sort(cuts.begin(), cuts.end());
      std::vector<double> widths;
      for (size_t i = 1; i < cuts.size(); ++i) {
        widths.push_back(std::min(cuts[i], 1.0) - std::min(cuts[i - 1], 1.0));
      }
      const int64_t cell = choices.Choose(widths);
      uniforms_.push_back(cuts[cell] + widths[cell] / 2);
    }
  }

  double uniform(int64_t position) const { return uniforms_[position]; }

  TokenId Draw(int64_t position, absl::Span<const double> law) const {
    double sum = 0;
    TokenId last_possible = 0;
    for (size_t i = 0; i < law.size(); ++i) {
      if (law[i] == 0) continue;
      last_possible = static_cast<TokenId>(i);
      sum += law[i];
      if (uniforms_[position] < sum) break;
    }
    return last_possible;
  }

 private:
  std::vector<double> uniforms_;  // [positions]
};

class SharedNoiseChooser final : public Chooser {
 public:
  explicit SharedNoiseChooser(const SharedNoise& noise) : noise_(noise) {}
  TokenId Draw(int64_t position, const TargetLaw& law) override {
    return law.token(noise_.Draw(position, Probabilities(law)));
  }
  int64_t Choose(int64_t, absl::Span<const double>) override {
    ESPALIER_CHECK(false);  // the walk makes no choices
    return 0;
  }
  TokenId DrawOutside(int64_t, const TargetLaw&) override {
    ESPALIER_CHECK(false);  // nor such draws
    return 0;
  }

 private:
  const SharedNoise& noise_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_SHARED_NOISE_H_
