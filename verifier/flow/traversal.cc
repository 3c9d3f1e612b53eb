#include <algorithm>
#include <vector>

#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {
namespace {

class Traversal final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t, Chooser&, StopLaw& law) override {
    tree_ = &tree;
    law_ = &law;
    law.Clear(tree);
    accept_.assign(tree.num_nodes(), 0);
    accept_[0] = 1;
    is_visited_.assign(tree.num_nodes(), false);
    reach_ = 1;
    Visit(0);
  }

 private:
  // Everything below the node first, then the node itself.
  void Visit(int32_t node) {
    is_visited_[node] = true;
    for (const auto& attempt : tree_->attempts(node)) {
      const FlowTree::Law law = tree_->LawOf(attempt);
      const double wanted = tree_->OfNode(law_->inside, node)[attempt.entry];
      const double accept =
          std::min(1.0, accept_[node] * wanted / attempt.drafted);
      if (is_visited_[attempt.child]) {
        StopAgain(attempt.child, accept);
      } else {
        accept_[attempt.child] = accept;
        Visit(attempt.child);
      }
      Reject(node, law);
    }
    law_->stop[node] = reach_ * accept_[node];
    reach_ -= law_->stop[node];
  }

  // A node found again is another child of its parent, with nothing below: all
  // that was drawn there was the first one's. Its bonus token is the target's,
  // so the node's becomes a mixture.
  void StopAgain(int32_t node, double accept) {
    const double again = reach_ * accept;
    reach_ -= again;
    double& stop = law_->stop[node];
    if (again == 0) return;
    const double share = again / (stop + again);
    const auto inside = tree_->OfNode(law_->inside, node);
    const auto target = tree_->target(node);
    for (size_t x = 0; x < inside.size(); ++x) {
      inside[x] += share * (target[x] - inside[x]);
    }
    law_->outside[node] += share * (1 - law_->outside[node]);
    stop += again;
  }

  // A child drawn from `law` is rejected: the node's target becomes what is
  // left of it, (accept * target - law)+ normalised, and its acceptance that
  // mass over itself plus what was not accepted before.
  void Reject(int32_t node, const FlowTree::Law& law) {
    const auto inside = tree_->OfNode(law_->inside, node);
    double& outside = law_->outside[node];
    double& accept = accept_[node];
    for (double& mass : inside) mass *= accept;
    outside *= accept;
    for (size_t i = 0; i < law.entries.size(); ++i) {
      double& mass = inside[law.entries[i]];
      mass = std::max(0.0, mass - law.probability[i]);
    }
    double left = outside * tree_->target_outside(node);
    for (double mass : inside) left += mass;
    if (left > 0) {
      for (double& mass : inside) mass /= left;
      outside /= left;
    }
    const double all = left + 1 - accept;
    accept = all > 0 ? left / all : 0;
  }

  const FlowTree* tree_ = nullptr;
  StopLaw* law_ = nullptr;        // holds the nodes' targets meanwhile
  std::vector<double> accept_;    // [nodes]
  std::vector<bool> is_visited_;  // [nodes]
  double reach_ = 1;              // probability that all before were rejected
};

}  // namespace

std::unique_ptr<TreeVerifier> NewTraversal() {
  return std::make_unique<Traversal>();
}

}  // namespace espalier::verifier
