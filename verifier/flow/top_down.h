#ifndef ESPALIER_VERIFIER_FLOW_TOP_DOWN_H_
#define ESPALIER_VERIFIER_FLOW_TOP_DOWN_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/node_plan.h"
#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {

// Walks from the root down: it descends to the child that the node's plan
// accepts; otherwise stops there, and the bonus token is from the plan's
// residual of the target. `plan` is called for reachable nodes, parents first.
// `reach`: scratch.
void WalkPlansDown(const FlowTree& tree,
                   absl::FunctionRef<const NodePlan&(int32_t node)> plan,
                   std::vector<double>& reach, StopDistribution& distribution);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_TOP_DOWN_H_
