#ifndef ESPALIER_COORDINATOR_CONTROL_ESTIMATE_H_
#define ESPALIER_COORDINATOR_CONTROL_ESTIMATE_H_

#include <algorithm>
#include <cmath>

namespace espalier::coordinator {

// The mean of a quantity, weighted towards the last `memory` observations, and
// how well it is known. What is not observed is forgotten (Fade).
class Estimate {
 public:
  // Before the first observation: a guess and its standard deviation.
  Estimate(double memory, double guess, double spread)
      : memory_(memory), mean_(guess), variance_(spread * spread) {}

  void Observe(double value) {
    weight_ = std::min(weight_ + 1, memory_);
    const double difference = value - mean_;
    if (weight_ > 1) {
      variance_ += (difference * difference - variance_) /
                   std::max(kFewestForVariance, weight_);
    }
    mean_ += difference / std::max(1.0, weight_);
  }
  // Nothing was observed: older observations count for less.
  void Fade() { weight_ *= kKept; }
  // A copy, as if there had been at most `most_weight` observations.
  Estimate Recalled(double most_weight) const {
    Estimate copy = *this;
    copy.weight_ = std::min(weight_, most_weight);
    return copy;
  }

  double mean() const { return mean_; }
  // Observations that the mean rests on.
  double weight() const { return weight_; }
  bool is_known() const { return weight_ >= 1; }
  // The mean plus so many standard errors.
  double Bound(double errors) const {
    return mean_ +
           errors * std::sqrt(variance_ / std::max(weight_, kMinWeight));
  }

 private:
  static constexpr double kFewestForVariance = 8;
  static constexpr double kMinWeight = 0.25;
  static constexpr double kKept = 0.997;  // of the weight, each time

  double memory_;
  double mean_;
  double variance_;  // of an observation
  double weight_ = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_ESTIMATE_H_
