#ifndef ESPALIER_COMMON_SPEC_PASS_COST_H_
#define ESPALIER_COMMON_SPEC_PASS_COST_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace espalier {

// What one forward pass over so many rows of trees takes: logits for every row.
struct PassCost {
  int64_t rows = 0;
  absl::Duration time;

  friend bool operator==(const PassCost&, const PassCost&) = default;
};

// Rows ascend from 1 or more, times never fall.
using PassCosts = std::vector<PassCost>;

// Of a pass over `rows` rows: linear between the points; before the first as
// there; behind the last along the last two, but no less than along the first
// and the last, and no more than in proportion to the rows. Zero without
// points.
absl::Duration PassTime(absl::Span<const PassCost> costs, int64_t rows);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_PASS_COST_H_
