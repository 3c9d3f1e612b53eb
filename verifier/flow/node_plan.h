#ifndef ESPALIER_VERIFIER_FLOW_NODE_PLAN_H_
#define ESPALIER_VERIFIER_FLOW_NODE_PLAN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/single_step.h"

namespace espalier::verifier {

// Composes single steps into a plan that accepts at most one child of a node.
//
// The distributions are served in turn, each from the target's residual and
// with the share of drafts that is not yet accepted. Deterministic children
// come last: one more token is sampled from the remaining residual, and a
// deterministic child with that token is accepted. Draws do not get the tokens
// of deterministic children, since that would only take mass from these. Owns
// its buffers; not thread-safe.
class NodePlan {
 public:
  // Starts an empty plan. The target is `scale` times the node's. Borrows the
  // tree. REQUIRES: 0 <= scale <= 1.
  void Begin(const FlowTree& tree, int32_t node, double scale);
  // `step` must fit the group's sample dependence. REQUIRES: given the groups
  // served before, the draws are from the group's distribution, and the order
  // of groups depends only on distributions (or on independent randomness).
  void ServeDraws(const FlowTree::Group& group, SingleStep& step);
  void ServeDeterministic();

  // [children] a child and the probability of accepting it; a child with
  // several samples is listed several times. The sum is at most 1.
  absl::Span<const std::pair<int32_t, double>> accept() const {
    return accept_;
  }
  double accept_sum() const { return 1 - unaccepted_; }
  // [support] expected acceptance of the children with the token.
  absl::Span<const double> flow() const { return flow_; }

 private:
  const FlowTree* tree_ = nullptr;
  int32_t node_ = 0;
  double free_ = 1;        // expected share of drafts with nothing accepted yet
  double unaccepted_ = 1;  // the same for the current draft
  std::vector<double> residual_;        // [support] of the target
  std::vector<bool> is_deterministic_;  // [support]
  std::vector<double> flow_;
  std::vector<std::pair<int32_t, double>> accept_;
  std::vector<double> wanted_;    // scratch, [distribution]
  std::vector<int32_t> sampled_;  // scratch, [draws]
  StepPlan step_plan_;
};

// Plans nodes with one single step per distribution, in descending order of
// acceptance of each distribution alone; this order depends on distributions,
// not on draws. `step` is for independent draws; draws without replacement use
// NewDistinctStep.
class NodePlanner {
 public:
  explicit NodePlanner(std::unique_ptr<SingleStep> step)
      : step_(std::move(step)) {}

  // The plan is valid until the next call.
  const NodePlan& Plan(const FlowTree& tree, int32_t node, double scale);

 private:
  void RankGroups(const FlowTree& tree, int32_t node, double scale);

  SingleStep& StepFor(const FlowTree::Group& group) {
    return group.how == SampleDependence::kIndependent ? *step_
                                                       : *distinct_step_;
  }

  const std::unique_ptr<SingleStep> step_;
  const std::unique_ptr<SingleStep> distinct_step_ = NewDistinctStep();
  NodePlan plan_;
  std::vector<std::pair<double, int32_t>> ranked_;  // (-overlap, group)
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_NODE_PLAN_H_
