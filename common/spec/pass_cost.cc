#include "common/spec/pass_cost.h"

#include <algorithm>

namespace espalier {

absl::Duration PassTime(absl::Span<const PassCost> costs, int64_t rows) {
  if (costs.empty()) return absl::ZeroDuration();
  if (rows <= costs.front().rows) return costs.front().time;
  if (costs.size() == 1) {
    return costs[0].time * rows / costs[0].rows;
  }
  // The first point at or behind `rows`, or the last.
  const auto above =
      std::find_if(costs.begin() + 1, costs.end() - 1,
                   [rows](const PassCost& cost) { return cost.rows >= rows; });
  const PassCost& low = *(above - 1);
  return low.time + (above->time - low.time) * (rows - low.rows) /
                        (above->rows - low.rows);
}

}  // namespace espalier
