#ifndef ESPALIER_COORDINATOR_NODE_BUDGET_H_
#define ESPALIER_COORDINATOR_NODE_BUDGET_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/spec/pass_cost.h"

namespace espalier::coordinator {

// What a row of the verifier's pass costs, in tokens.
struct RowPrice {
  absl::Span<const PassCost> costs;  // empty: not known
  int64_t other_rows = 0;  // that share the pass: others' and the root
  // What a second of the pass keeps from all who share it.
  double tokens_per_second = 0;
};

// How many nodes of a tree pay: the number n at which the chances of the first
// n nodes to be emitted exceed by most what their rows cost, the fewest of
// equals. log_chances: of nodes 1, 2, .. of a tree, none above one before it.
// That all sessions pay the same price makes one budget of the pass, spent
// where it brings most.
struct PayingNodes {
  int64_t nodes = 0;
  double gain = 0;  // tokens
};
PayingNodes NodesThatPay(absl::Span<const float> log_chances,
                         const RowPrice& price);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_NODE_BUDGET_H_
