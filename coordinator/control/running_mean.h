#ifndef ESPALIER_COORDINATOR_CONTROL_RUNNING_MEAN_H_
#define ESPALIER_COORDINATOR_CONTROL_RUNNING_MEAN_H_

#include <algorithm>

namespace espalier::coordinator {

// Mean of the observations: of all of them at first, later weighted towards the
// last `memory` ones.
class RunningMean {
 public:
  // Starts as if `initial` had been observed `weight` times.
  explicit RunningMean(double memory, double initial = 0, double weight = 0)
      : memory_(memory), mean_(initial), weight_(weight) {}

  void Observe(double value) {
    weight_ = std::min(weight_ + 1, memory_);
    mean_ += (value - mean_) / weight_;
  }
  // Nothing was observed: older observations count for less.
  void Fade() { weight_ *= 1 - 1 / memory_; }
  // Forgets all observations and starts as if `initial` had been observed a few
  // times.
  void Restart(double initial) {
    mean_ = initial;
    weight_ = std::min(kFew, memory_);
  }
  // Older observations count for no more than a few.
  void Doubt() { weight_ = std::min(weight_, kFew); }
  // Forgets all observations. Until the next one, the mean is a guess.
  void Guess(double mean) {
    mean_ = mean;
    weight_ = 0;
  }
  // A copy with another memory, as if the mean had been observed at most
  // `most_weight` times.
  RunningMean Recalled(double memory, double most_weight) const {
    return RunningMean(memory, mean_, std::min(weight_, most_weight));
  }
  double mean() const { return mean_; }

 private:
  static constexpr double kFew = 4;

  double memory_;
  double mean_;
  double weight_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_RUNNING_MEAN_H_
