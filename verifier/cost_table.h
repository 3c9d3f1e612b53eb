#ifndef ESPALIER_VERIFIER_COST_TABLE_H_
#define ESPALIER_VERIFIER_COST_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/spec/pass_cost.h"

namespace espalier::verifier {

// What a forward pass costs by its number of rows: measured at start, kept
// current by the passes that are run. One thread.
//
// An observation moves the points beside it by a tenth of what it differs from
// them (a moving average), all others by most of that: when one row count gets
// slower the machine probably did, and a table whose points were taken at
// different loads would make some rows look free. More rows never cost less.
//
// A machine that was busy at start spoils what was measured there, maybe at
// some of the points: the first observations of a point move it alone, at once
// where they are faster, else to the mean of all.
class CostTable {
 public:
  // Without points: knows nothing, learns nothing.
  CostTable() = default;
  // The rows of `points` ascend from 1 or more. Times that fall are raised.
  explicit CostTable(PassCosts points);

  const PassCosts& points() const { return points_; }

  // A pass over `rows` rows took `time`. One that differs from what is known by
  // more than a factor of two counts as two: it may have been interrupted.
  void Observe(int64_t rows, absl::Duration time);

 private:
  // Whether the points beside `rows` have been observed often.
  bool Settled(int64_t rows) const;

  PassCosts points_;
  std::vector<double> seen_;  // observations beside each point
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_COST_TABLE_H_
