#ifndef ESPALIER_COORDINATOR_RUNNING_MEAN_H_
#define ESPALIER_COORDINATOR_RUNNING_MEAN_H_

#include <algorithm>

namespace espalier::coordinator {

// The mean of what was observed: of all of it at first, then with the last
// `memory` observations weighing most.
class RunningMean {
 public:
  // As if `initial` had been observed `weight` times.
  explicit RunningMean(double memory, double initial = 0, double weight = 0)
      : memory_(memory), mean_(initial), weight_(weight) {}

  void Observe(double value) {
    weight_ = std::min(weight_ + 1, memory_);
    mean_ += (value - mean_) / weight_;
  }
  // Nothing was observed: what was counts for less.
  void Fade() { weight_ *= 1 - 1 / memory_; }
  // Forgets all, as if `initial` had been observed some times.
  void Restart(double initial) {
    constexpr double kFew = 4;
    mean_ = initial;
    weight_ = std::min(kFew, memory_);
  }
  // The same mean in a memory of its own, as if observed `most_weight` times at
  // most.
  RunningMean Recalled(double memory, double most_weight) const {
    return RunningMean(memory, mean_, std::min(weight_, most_weight));
  }
  double mean() const { return mean_; }

 private:
  double memory_;
  double mean_;
  double weight_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_RUNNING_MEAN_H_
