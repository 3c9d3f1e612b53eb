#include <utility>

#include "verifier/flow/top_down.h"

namespace espalier::verifier {
namespace {

class SpecInfer final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t round, Chooser& chooser,
              StopLaw& law) override {
    const auto plan = [&](int32_t node) -> const NodePlan& {
      return Plan(tree, node, round, chooser);
    };
    WalkPlansDown(tree, plan, reach_, law);
  }

 private:
  const NodePlan& Plan(const FlowTree& tree, int32_t node, int64_t round,
                       Chooser& chooser) {
    plan_.Begin(tree, node, /*scale=*/1);
    const auto attempts = tree.attempts(node);
    draws_.assign(attempts.begin(), attempts.end() - tree.chosen(node).size());
    while (!draws_.empty()) {
      equal_.assign(draws_.size(), 1);
      const int64_t next =
          draws_.size() == 1 ? 0 : chooser.Choose(round, equal_);
      std::swap(draws_[next], draws_.back());
      plan_.ServeDraws(tree.LawOf(node, draws_.back()), {&draws_.back(), 1},
                       *step_);
      draws_.pop_back();
    }
    plan_.ServeChosen();
    return plan_;
  }

  const std::unique_ptr<SingleStep> step_ = NewSpsStep();
  NodePlan plan_;
  std::vector<FlowTree::Attempt> draws_;  // that were not served yet
  std::vector<double> equal_;             // [draws]
  std::vector<double> reach_;
};

}  // namespace

std::unique_ptr<TreeVerifier> NewSpecInfer() {
  return std::make_unique<SpecInfer>();
}

}  // namespace espalier::verifier
