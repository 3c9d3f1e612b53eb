#ifndef ESPALIER_TESTS_VERIFIER_SHARED_NOISE_H_
#define ESPALIER_TESTS_VERIFIER_SHARED_NOISE_H_

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "lab/exact_distribution.h"

namespace espalier::verifier {

// Noise that verifier and drafter share, small enough to enumerate: one uniform
// number per position, from which every distribution is sampled by its inverse
// CDF. The cumulative sums of all distributions that may meet at a position cut
// (0, 1) into cells; within one the draws are the same, so a cell is an
// outcome.
class SharedNoise {
 public:
  // `distributions`: [positions][distributions that may be sampled from there].
  SharedNoise(
      const std::vector<std::vector<std::vector<double>>>& distributions,
      ChoiceTree& choices) {
    for (const auto& distributions_here : distributions) {
      std::vector<double> cuts = {0, 1};
      for (const auto& distribution : distributions_here) {
        double sum = 0;
        for (double probability : distribution)
          cuts.push_back(sum += probability);
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

  TokenId SampleToken(int64_t position,
                      absl::Span<const double> distribution) const {
    double sum = 0;
    TokenId last_possible = 0;
    for (size_t i = 0; i < distribution.size(); ++i) {
      if (distribution[i] == 0) continue;
      last_possible = static_cast<TokenId>(i);
      sum += distribution[i];
      if (uniforms_[position] < sum) break;
    }
    return last_possible;
  }

 private:
  std::vector<double> uniforms_;  // [positions]
};

class SharedNoiseSampler final : public TokenSampler {
 public:
  explicit SharedNoiseSampler(const SharedNoise& noise) : noise_(noise) {}
  TokenId SampleToken(int64_t position,
                      const TargetDistribution& distribution) override {
    return distribution.token(
        noise_.SampleToken(position, Probabilities(distribution)));
  }
  int64_t SampleIndex(int64_t, absl::Span<const double>) override {
    ESPALIER_CHECK(false);  // the walk makes no choices
    return 0;
  }
  TokenId SampleOutside(int64_t, const TargetDistribution&) override {
    ESPALIER_CHECK(false);  // and no draws outside the tree
    return 0;
  }

 private:
  const SharedNoise& noise_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_SHARED_NOISE_H_
