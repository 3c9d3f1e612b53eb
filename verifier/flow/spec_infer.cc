#include <utility>

#include "verifier/flow/top_down.h"

namespace espalier::verifier {
namespace {

class SpecInfer final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t round, TokenSampler& sampler,
              StopDistribution& distribution) override {
    const auto plan = [&](int32_t node) -> const NodePlan& {
      return Plan(tree, node, round, sampler);
    };
    WalkPlansDown(tree, plan, reach_, distribution);
  }

 private:
  const NodePlan& Plan(const FlowTree& tree, int32_t node, int64_t round,
                       TokenSampler& sampler) {
    plan_.Begin(tree, node, /*scale=*/1);
    FindUnits(tree, node);
    while (!units_.empty()) {
      equal_.assign(units_.size(), 1);
      const int64_t next =
          units_.size() == 1 ? 0 : sampler.SampleIndex(round, equal_);
      std::swap(units_[next], units_.back());
      const bool replaced = units_.back().how == SampleDependence::kIndependent;
      plan_.ServeDraws(units_.back(), replaced ? *step_ : *distinct_step_);
      units_.pop_back();
    }
    plan_.ServeDeterministic();
    return plan_;
  }

  // Each draw alone; those without replacement keep their order.
  void FindUnits(const FlowTree& tree, int32_t node) {
    units_.clear();
    for (int32_t i = 0; i < tree.num_groups(node); ++i) {
      FlowTree::Group group = tree.group(node, i);
      if (group.how == SampleDependence::kWithoutReplacement) {
        units_.push_back(group);
        continue;
      }
      const auto draws = group.draws;
      for (size_t draw = 0; draw < draws.size(); ++draw) {
        group.draws = draws.subspan(draw, 1);
        units_.push_back(group);
      }
    }
  }

  const std::unique_ptr<SingleStep> step_ = NewSpsStep();
  const std::unique_ptr<SingleStep> distinct_step_ = NewDistinctStep();
  NodePlan plan_;
  std::vector<FlowTree::Group> units_;  // not yet served
  std::vector<double> equal_;           // [units]
  std::vector<double> reach_;
};

}  // namespace

std::unique_ptr<TreeVerifier> NewSpecInfer() {
  return std::make_unique<SpecInfer>();
}

}  // namespace espalier::verifier
