#include "coordinator/control/paying_nodes.h"

#include <cmath>

#include "absl/time/time.h"

namespace espalier::coordinator {

double CostOfNodes(int64_t nodes, const RowCost& cost) {
  const absl::Duration more = PassTime(cost.costs, cost.other_rows + nodes) -
                              PassTime(cost.costs, cost.other_rows);
  return cost.tokens_per_second * absl::ToDoubleSeconds(more);
}

PayingNodes NodesThatPay(absl::Span<const float> log_chances,
                         const RowCost& cost) {
  PayingNodes best;
  double tokens = 0;
  for (size_t i = 0; i < log_chances.size(); ++i) {
    const int64_t nodes = static_cast<int64_t>(i) + 1;
    tokens += std::exp(static_cast<double>(log_chances[i]));
    const double gain = tokens - CostOfNodes(nodes, cost);
    if (gain > best.gain) best = {nodes, gain};
  }
  return best;
}

}  // namespace espalier::coordinator
