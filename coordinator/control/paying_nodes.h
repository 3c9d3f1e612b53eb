#ifndef ESPALIER_COORDINATOR_CONTROL_PAYING_NODES_H_
#define ESPALIER_COORDINATOR_CONTROL_PAYING_NODES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/speculation/pass_cost.h"

namespace espalier::coordinator {

// Cost of the rows of a tree in the verifier's pass, in tokens.
struct RowCost {
  absl::Span<const PassCost> costs;  // empty: unknown
  int64_t other_rows = 0;  // of the same pass: other sessions' and the root
  // Tokens that all sessions of the pass would emit in a second.
  double tokens_per_second = 0;
};

// Returns what so many nodes cost.
double CostOfNodes(int64_t nodes, const RowCost& cost);

// The number n of nodes of a tree that pay: the sum of the probabilities of the
// first n nodes exceeds the cost of their rows by most; the smallest n if
// several do equally. log_chances: log-probabilities of being emitted, of nodes
// 1, 2, ..; not increasing. As all sessions pay the same price, the rows of a
// pass go where they gain most.
struct PayingNodes {
  int64_t nodes = 0;
  double gain = 0;  // tokens
};
PayingNodes NodesThatPay(absl::Span<const float> log_chances,
                         const RowCost& cost);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_PAYING_NODES_H_
