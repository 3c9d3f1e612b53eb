#include <algorithm>
#include <vector>

#include "verifier/flow/tree_verifier.h"

namespace espalier::verifier {
namespace {

class Traversal final : public TreeVerifier {
 public:
  void Verify(const FlowTree& tree, int64_t, TokenSampler&,
              StopDistribution& distribution) override {
    tree_ = &tree;
    distribution_ = &distribution;
    distribution.Clear(tree);
    accept_.assign(tree.num_nodes(), 0);
    accept_[0] = 1;
    is_visited_.assign(tree.num_nodes(), false);
    reach_ = 1;
    Visit(0);
  }

 private:
  // First everything below the node, then the node itself.
  void Visit(int32_t node) {
    is_visited_[node] = true;
    for (const auto& draw : tree_->draws(node)) {
      const FlowTree::Distribution distribution = tree_->DistributionOf(draw);
      const double wanted =
          tree_->OfNode(distribution_->inside, node)[draw.entry];
      const double accept =
          std::min(1.0, accept_[node] * wanted / draw.drafted);
      if (is_visited_[draw.child]) {
        StopAgain(draw.child, accept);
      } else {
        accept_[draw.child] = accept;
        Visit(draw.child);
      }
      Reject(node, distribution);
    }
    distribution_->stop[node] = reach_ * accept_[node];
    reach_ -= distribution_->stop[node];
  }

  // A further sample of a node is another child of its parent, with nothing
  // below it: all samples there belong to the first one. Its bonus token is
  // from the target, so the node's bonus distribution becomes a mixture.
  void StopAgain(int32_t node, double accept) {
    const double again = reach_ * accept;
    reach_ -= again;
    double& stop = distribution_->stop[node];
    if (again == 0) return;
    const double share = again / (stop + again);
    const auto inside = tree_->OfNode(distribution_->inside, node);
    const auto target = tree_->target(node);
    for (size_t x = 0; x < inside.size(); ++x) {
      inside[x] += share * (target[x] - inside[x]);
    }
    distribution_->outside[node] += share * (1 - distribution_->outside[node]);
    stop += again;
  }

  // A child sampled from `distribution` is rejected: the node's target becomes
  // the residual (accept * target - distribution)+, normalised, and its
  // acceptance becomes mass / (mass + 1 - accept), where mass is that of the
  // residual.
  void Reject(int32_t node, const FlowTree::Distribution& distribution) {
    const auto inside = tree_->OfNode(distribution_->inside, node);
    double& outside = distribution_->outside[node];
    double& accept = accept_[node];
    for (double& mass : inside) mass *= accept;
    outside *= accept;
    for (size_t i = 0; i < distribution.entries.size(); ++i) {
      double& mass = inside[distribution.entries[i]];
      mass = std::max(0.0, mass - distribution.probability[i]);
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
  StopDistribution* distribution_ =
      nullptr;                    // holds the nodes' current targets
  std::vector<double> accept_;    // [nodes]
  std::vector<bool> is_visited_;  // [nodes]
  double reach_ = 1;              // probability that all earlier were rejected
};

}  // namespace

std::unique_ptr<TreeVerifier> NewTraversal() {
  return std::make_unique<Traversal>();
}

}  // namespace espalier::verifier
