#ifndef ESPALIER_VERIFIER_FLOW_NODE_PLAN_H_
#define ESPALIER_VERIFIER_FLOW_NODE_PLAN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/single_step.h"

namespace espalier::verifier {

// Which child of a node to accept, at most one: single steps composed.
//
// The laws are served in turn, each from what the target still wants, and so
// many drafts are still free. Chosen children come last: what the draws have
// left of the target is the law of one more token, and if that is theirs they
// have it. No draw is given a chosen token, since that would only take it from
// them. Owns its buffers; not thread-safe.
class NodePlan {
 public:
  // A plan that serves nobody yet. The target is `scale` times the node's.
  // Borrows the tree. REQUIRES: 0 <= scale <= 1.
  void Begin(const FlowTree& tree, int32_t node, double scale);
  // `step`: for draws that are made as the group's are. REQUIRES: the draws are
  // from the law, given those served before, and nothing but laws (or other
  // randomness) decided that they are the next.
  void ServeDraws(const FlowTree::Group& group, SingleStep& step);
  void ServeChosen();

  // [children] a child and the probability that the draft goes there; a child
  // found more than once is there more than once. Their sum is at most 1.
  absl::Span<const std::pair<int32_t, double>> accept() const {
    return accept_;
  }
  double accept_sum() const { return 1 - unaccepted_; }
  // [support] expected accept of the children with the token.
  absl::Span<const double> flow() const { return flow_; }

 private:
  const FlowTree* tree_ = nullptr;
  int32_t node_ = 0;
  double free_ = 1;        // expected share of drafts that nothing was taken of
  double unaccepted_ = 1;  // the same for the draft at hand
  std::vector<double> residual_;  // [support] of the target
  std::vector<bool> is_chosen_;   // [support]
  std::vector<double> flow_;
  std::vector<std::pair<int32_t, double>> accept_;
  std::vector<double> wanted_;  // scratch, [law]
  std::vector<int32_t> drawn_;  // scratch, [draws]
  StepPlan step_plan_;
};

// Plans nodes with a single step for every law: those laws first that accept
// most alone, which is decided by laws and not by draws. The step is one for
// independent draws; those without replacement have their own.
class NodePlanner {
 public:
  explicit NodePlanner(std::unique_ptr<SingleStep> step)
      : step_(std::move(step)) {}

  // The plan is valid until the next call.
  const NodePlan& Plan(const FlowTree& tree, int32_t node, double scale);

 private:
  void RankGroups(const FlowTree& tree, int32_t node, double scale);

  SingleStep& StepFor(const FlowTree::Group& group) {
    return group.how == LawDraws::kIndependent ? *step_ : *distinct_step_;
  }

  const std::unique_ptr<SingleStep> step_;
  const std::unique_ptr<SingleStep> distinct_step_ = NewDistinctStep();
  NodePlan plan_;
  std::vector<std::pair<double, int32_t>> ranked_;  // (-overlap, group)
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_NODE_PLAN_H_
