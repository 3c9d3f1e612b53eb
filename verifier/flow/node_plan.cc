#include "verifier/flow/node_plan.h"

#include <algorithm>

#include "verifier/flow/negligible.h"

namespace espalier::verifier {
namespace {

// Probability that speculative sampling accepts a draw from the distribution.
double Overlap(const FlowTree& tree, int32_t node,
               const FlowTree::Distribution& distribution, double scale) {
  const auto target = tree.target(node);
  double overlap = 0;
  for (size_t i = 0; i < distribution.entries.size(); ++i) {
    overlap += std::min(distribution.probability[i],
                        scale * target[distribution.entries[i]]);
  }
  return overlap;
}

}  // namespace

void NodePlan::Begin(const FlowTree& tree, int32_t node, double scale) {
  tree_ = &tree;
  node_ = node;
  free_ = 1;
  unaccepted_ = 1;
  const auto target = tree.target(node);
  residual_.assign(target.begin(), target.end());
  for (double& mass : residual_) mass *= scale;
  flow_.assign(target.size(), 0);
  is_deterministic_.assign(target.size(), false);
  for (const auto& child : tree.deterministic(node))
    is_deterministic_[child.entry] = true;
  accept_.clear();
}

void NodePlan::ServeDraws(const FlowTree::Group& group, SingleStep& step) {
  if (free_ <= kNegligible) return;
  const auto& [distribution, how, draws] = group;
  wanted_.clear();
  for (int32_t entry : distribution.entries) {
    wanted_.push_back(is_deterministic_[entry] ? 0 : residual_[entry] / free_);
  }
  sampled_.clear();
  for (const auto& draw : draws) sampled_.push_back(draw.distribution_entry);
  step.Plan({.distribution = distribution.probability,
             .target = wanted_,
             .draws = sampled_},
            step_plan_);

  double accepted = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    accept_.push_back({draws[i].child, unaccepted_ * step_plan_.accept[i]});
    accepted += step_plan_.accept[i];
  }
  unaccepted_ *= std::max(0.0, 1 - accepted);
  const double share = free_;
  for (size_t i = 0; i < distribution.entries.size(); ++i) {
    const int32_t entry = distribution.entries[i];
    const double taken = std::min(share * step_plan_.flow[i], residual_[entry]);
    flow_[entry] += taken;
    residual_[entry] -= taken;
    free_ -= taken;
  }
}

void NodePlan::ServeDeterministic() {
  if (free_ <= kNegligible) return;
  double accepted = 0;
  for (const auto& child : tree_->deterministic(node_)) {
    const double wanted = residual_[child.entry] / free_;
    accept_.push_back({child.child, unaccepted_ * wanted});
    accepted += wanted;
    flow_[child.entry] += residual_[child.entry];
    residual_[child.entry] = 0;
  }
  unaccepted_ *= std::max(0.0, 1 - accepted);
}

const NodePlan& NodePlanner::Plan(const FlowTree& tree, int32_t node,
                                  double scale) {
  plan_.Begin(tree, node, scale);
  RankGroups(tree, node, scale);
  for (const auto& [overlap, index] : ranked_) {
    const FlowTree::Group group = tree.group(node, index);
    plan_.ServeDraws(group, StepFor(group));
  }
  plan_.ServeDeterministic();
  return plan_;
}

void NodePlanner::RankGroups(const FlowTree& tree, int32_t node, double scale) {
  ranked_.clear();
  for (int32_t i = 0; i < tree.num_groups(node); ++i) {
    ranked_.push_back(
        {-Overlap(tree, node, tree.group(node, i).distribution, scale), i});
  }
  std::sort(ranked_.begin(), ranked_.end());
}

}  // namespace espalier::verifier
