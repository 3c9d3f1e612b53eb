#ifndef ESPALIER_TESTS_VERIFIER_CHI_SQUARE_H_
#define ESPALIER_TESTS_VERIFIER_CHI_SQUARE_H_

#include <cmath>
#include <cstdint>
#include <vector>

namespace espalier::verifier {

// P(X > x) for chi-square X with an even number of degrees of freedom, where
// it is a finite sum: exp(-x/2) * sum_{j < degrees/2} (x/2)^j / j!.
inline double ChiSquareTail(double x, int64_t degrees) {
  double term = std::exp(-x / 2);
  double sum = 0;
  for (int64_t j = 0; j < degrees / 2; ++j) {
    sum += term;
    term *= x / 2 / static_cast<double>(j + 1);
  }
  return sum;
}

// Probability of counts at least as far from the distribution, by the G
// statistic. A count where the distribution is 0 gives 0. Cells with an
// expectation below 5 are pooled. With an odd number of degrees of freedom one
// is left out, which makes the result smaller, and so the test stricter.
inline double GTestPValue(const std::vector<int64_t>& counts,
                          const std::vector<double>& distribution) {
  double total = 0;
  for (int64_t count : counts) total += static_cast<double>(count);
  double g = 0;
  int64_t cells = 0;
  double pooled_count = 0, pooled_expectation = 0;
  const auto add_cell = [&](double count, double expectation) {
    if (count > 0) g += 2 * count * std::log(count / expectation);
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double count = static_cast<double>(counts[i]);
    const double expectation = distribution[i] * total;
    if (distribution[i] == 0) {
      if (count > 0) return 0;
    } else if (expectation < 5) {
      pooled_count += count;
      pooled_expectation += expectation;
    } else {
      add_cell(count, expectation);
    }
  }
  if (pooled_expectation > 0) add_cell(pooled_count, pooled_expectation);
  return ChiSquareTail(g, (cells - 1) / 2 * 2);
}

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_CHI_SQUARE_H_
