#include "common/speculation/pass_cost.h"

#include <algorithm>

namespace espalier {
namespace {

// Returns the time after the last point. The bounds limit the effect of a
// disturbed measurement: further rows are neither free nor dearer than the
// first ones, which pay for reading the weights.
absl::Duration Extrapolated(absl::Span<const PassCost> costs, int64_t rows) {
  const PassCost& last = costs.back();
  const auto along = [&](const PassCost& from) {
    return (last.time - from.time) * (rows - last.rows) /
           (last.rows - from.rows);
  };
  absl::Duration more = last.time * (rows - last.rows) / last.rows;
  if (costs.size() > 1) {
    more = std::min(
        more, std::max(along(costs.front()), along(costs[costs.size() - 2])));
  }
  return last.time + more;
}

}  // namespace

absl::Duration PassTime(absl::Span<const PassCost> costs, int64_t rows) {
  if (costs.empty()) return absl::ZeroDuration();
  if (rows <= costs.front().rows) return costs.front().time;
  if (rows > costs.back().rows) return Extrapolated(costs, rows);
  // The first point with at least `rows` rows.
  const auto above =
      std::find_if(costs.begin() + 1, costs.end(),
                   [rows](const PassCost& cost) { return cost.rows >= rows; });
  const PassCost& low = *(above - 1);
  return low.time + (above->time - low.time) * (rows - low.rows) /
                        (above->rows - low.rows);
}

}  // namespace espalier
