#ifndef ESPALIER_COORDINATOR_CONTROL_TREE_OVERHEAD_H_
#define ESPALIER_COORDINATOR_CONTROL_TREE_OVERHEAD_H_

#include <algorithm>

#include "coordinator/control/running_mean.h"

namespace espalier::coordinator {

// Estimates what verifying any node adds to a round beyond the time of its row:
// attention of a second row of the sequence, the walk, tokens that leave
// together. It is the difference between rounds with nodes and rounds without,
// so that what both take does not count. Lives on the executor.
class TreeOverhead {
 public:
  // A round that asked cheap drafters alone took rest_seconds beyond their wait
  // and its pass, as the verifier expected that; a round of plain decoding
  // takes plain_seconds.
  void Observe(bool has_nodes, double rest_seconds, double plain_seconds) {
    // The round may have been held up.
    const double most = kMost * plain_seconds;
    (has_nodes ? with_ : without_)
        .Observe(std::clamp(rest_seconds, -most, most));
  }

  double seconds() const {
    return std::max(0.0, with_.mean() - without_.mean());
  }

 private:
  static constexpr double kMemory = 256;  // rounds
  static constexpr double kPrior = 32;    // rounds without a difference
  static constexpr double kMost = 0.5;    // rounds

  RunningMean with_{kMemory, 0, kPrior};
  RunningMean without_{kMemory, 0, kPrior};
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_TREE_OVERHEAD_H_
