#ifndef ESPALIER_VERIFIER_COSTS_COST_UPKEEP_H_
#define ESPALIER_VERIFIER_COSTS_COST_UPKEEP_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "common/speculation/pass_cost.h"
#include "verifier/costs/cost_table.h"

namespace espalier::verifier {

// How far a table is to be believed when it begins.
enum class TableTrust {
  kDoubtful,  // the machine did other things meanwhile (MeasuredCosts)
  kUsual,
  kSteady,  // of a GPU, which does nothing else
};

// Keeps a table of pass costs accurate where sessions do not. Sessions run only
// the row counts that seem to pay, so a row count whose estimate is too high
// would never be corrected. Therefore measuring passes run while no session is
// active and, for a small share of the time, before a pass of sessions, when
// the machine is as busy as it is for these. None run where the table is
// certain, as one of a GPU is from the start. If the table was doubtful from
// the start, and a pass disagrees with it, more of the time is spent until it
// is certain. Single-threaded.
class CostUpkeep {
 public:
  // max_rows: of a measuring pass.
  CostUpkeep(PassCosts points, int64_t max_rows,
             TableTrust trust = TableTrust::kUsual)
      : table_(std::move(points), trust == TableTrust::kSteady),
        max_rows_(max_rows),
        is_steady_(trust == TableTrust::kSteady),
        is_doubtful_(trust == TableTrust::kDoubtful) {}

  const PassCosts& points() const { return table_.points(); }

  // Returns the row count of the next measuring pass, the most uncertain one;
  // unset: none is needed. While no session is active:
  std::optional<int64_t> RowsAtRest() const;
  // Before a pass of sessions over `rows` rows: seldom, and not for many more
  // rows than `rows`.
  std::optional<int64_t> RowsBefore(int64_t rows);

  // Returns whether a measuring pass took so much longer than expected that it
  // may have been interrupted. Then it runs again, and the faster one counts.
  bool SeemsInterrupted(int64_t rows, absl::Duration time) const;

  // Call when a pass of sessions, or a measuring pass while idle, took `time`.
  void Observe(int64_t rows, absl::Duration time);
  // Observes a measurement that sessions had to wait for, `spent` in all.
  void ObserveBefore(int64_t rows, absl::Duration time, absl::Duration spent);

 private:
  std::optional<int64_t> MostDoubtful(int64_t max_rows, double doubt) const;

  CostTable table_;
  int64_t max_rows_;
  bool is_steady_;
  bool is_doubtful_;           // and no pass has disagreed yet
  bool is_corrected_ = false;  // until the table is certain
  absl::Duration credit_;  // of sessions' time for measuring; may be negative
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_COSTS_COST_UPKEEP_H_
