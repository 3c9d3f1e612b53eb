#ifndef ESPALIER_VERIFIER_FLOW_TOP_DOWN_H_
#define ESPALIER_VERIFIER_FLOW_TOP_DOWN_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/node_plan.h"
#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {

// Goes from each node to a child as its plan says, else stops there and emits
// what the plan has left of the target. `plan` is asked for nodes that can be
// reached, parents first. `reach`: scratch.
void WalkPlansDown(const FlowTree& tree,
                   absl::FunctionRef<const NodePlan&(int32_t node)> plan,
                   std::vector<double>& reach, StopLaw& law);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_TOP_DOWN_H_
