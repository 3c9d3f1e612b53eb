#ifndef ESPALIER_COMMON_SPECULATION_PASS_COST_H_
#define ESPALIER_COMMON_SPECULATION_PASS_COST_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace espalier {

// The time of one forward pass over `rows` tree rows, with logits for each.
struct PassCost {
  int64_t rows = 0;
  absl::Duration time;

  friend bool operator==(const PassCost&, const PassCost&) = default;
};

// Rows ascend and are at least 1; times never fall.
using PassCosts = std::vector<PassCost>;

// Returns the time of a pass over `rows` rows: interpolated linearly between
// the points; before the first point, its time; after the last point,
// extrapolated along the last two, but at least along the first and the last,
// and at most in proportion to the rows. Zero without points.
absl::Duration PassTime(absl::Span<const PassCost> costs, int64_t rows);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_PASS_COST_H_
