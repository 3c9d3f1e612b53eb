#include "verifier/costs/cost_upkeep.h"

#include <algorithm>

namespace espalier::verifier {
namespace {

// Measured if the doubt is larger, see CostTable::Doubt: at rest, and while
// sessions wait.
constexpr double kDoubtful = 0.12;
constexpr double kVeryDoubtful = 0.2;
// Share of sessions' time for measuring passes that they wait for.
constexpr double kShare = 1.0 / 16;
// That share on a device where passes take what they took.
constexpr double kSteadyShare = 1.0 / 128;
// The share of sessions' time while a table that was doubtful from the start is
// corrected.
constexpr double kCorrectingShare = 1.0 / 4;
constexpr double kDisagrees = 1.4;  // times the estimate, or its inverse
constexpr int kPointsAhead = 4;
constexpr double kInterrupted = 1.25;  // times the estimate

}  // namespace

std::optional<int64_t> CostUpkeep::RowsAtRest() const {
  return MostDoubtful(max_rows_, kDoubtful);
}

std::optional<int64_t> CostUpkeep::MostDoubtful(int64_t max_rows,
                                                double doubt) const {
  const PassCosts& points = table_.points();
  std::optional<int64_t> rows;
  double most = doubt;
  for (size_t i = 0; i < points.size() && points[i].rows <= max_rows; ++i) {
    if (table_.Doubt(i) <= most) continue;
    most = table_.Doubt(i);
    rows = points[i].rows;
  }
  return rows;
}

// If the next few points turn out cheap, trees grow and further points come
// within reach.
std::optional<int64_t> CostUpkeep::RowsBefore(int64_t rows) {
  if (credit_ <= absl::ZeroDuration()) return std::nullopt;
  int64_t limit = rows;
  int ahead = 0;
  for (const PassCost& point : table_.points()) {
    if (point.rows > rows && ++ahead <= kPointsAhead) limit = point.rows;
  }
  const auto measured = MostDoubtful(std::min(limit, max_rows_), kVeryDoubtful);
  if (!measured) is_corrected_ = false;
  return measured;
}

bool CostUpkeep::SeemsInterrupted(int64_t rows, absl::Duration time) const {
  return time > kInterrupted * PassTime(table_.points(), rows);
}

void CostUpkeep::Observe(int64_t rows, absl::Duration time) {
  const absl::Duration expected = PassTime(table_.points(), rows);
  const bool disagrees =
      time > kDisagrees * expected || expected > kDisagrees * time;
  if (is_doubtful_ && disagrees) {
    is_doubtful_ = false;
    is_corrected_ = true;
  }
  table_.Observe(rows, time);
  const double usual = is_steady_ ? kSteadyShare : kShare;
  const absl::Duration share =
      (is_corrected_ ? kCorrectingShare : usual) * time;
  credit_ = std::min(credit_ + share, share);
}

void CostUpkeep::ObserveBefore(int64_t rows, absl::Duration time,
                               absl::Duration spent) {
  table_.Observe(rows, time);
  credit_ -= spent;
}

}  // namespace espalier::verifier
