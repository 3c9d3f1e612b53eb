#ifndef ESPALIER_VERIFIER_COSTS_COST_TABLE_H_
#define ESPALIER_VERIFIER_COSTS_COST_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/speculation/pass_cost.h"

namespace espalier::verifier {

// The cost of a forward pass by its number of rows: measured at start, kept
// current by the passes that run. Single-threaded.
//
// The logarithms of the points' times are a Gaussian estimate with a full
// covariance (a Kalman filter). A pass updates every point by its correlation
// with the observed row count: all points share the machine's speed,
// neighbouring row counts share a slope, and each point has an error of its
// own. So points that no longer run follow the machine's speed without
// inheriting errors particular to the rows that do run, and their uncertainty
// grows with time and after a change of speed (see Doubt).
class CostTable {
 public:
  // Without points: has no estimates and learns none.
  CostTable() = default;
  // The rows of `points` ascend from 1 or more. is_steady: they were measured
  // on a device that does nothing else, where equal passes take equal time.
  explicit CostTable(PassCosts points, bool is_steady = false);

  // Estimates never fall with more rows: where the raw ones would, they are
  // averaged, weighted by certainty.
  const PassCosts& points() const { return points_; }

  // A pass over `rows` rows took `time`. The effect of an outlier is limited to
  // a factor of two, as the pass may have been interrupted; if more like it
  // follow, the estimate moves to them.
  void Observe(int64_t rows, absl::Duration time);

  // Standard deviation of the logarithm of a point's time: 0.1 is 10 %.
  double Doubt(size_t point) const;

 private:
  // The place of a row count: between two points, or on one.
  struct Place {
    size_t low;
    size_t high;
    double high_weight;  // in its time; that of `low` is the rest
    double log_time;     // as estimated
  };
  Place PlaceOf(int64_t rows) const;
  double& covariance(size_t i, size_t j) {
    return covariance_[i * points_.size() + j];
  }
  double Surprise(double difference, double expected, bool little_known);
  void Publish();

  PassCosts points_;                // published
  std::vector<double> log_times_;   // [points] of seconds, as estimated
  std::vector<double> covariance_;  // [points, points]
  double last_surprise_ = 0;        // of the last pass; 0: as expected
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_COSTS_COST_TABLE_H_
