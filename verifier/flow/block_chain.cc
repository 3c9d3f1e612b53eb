#include "verifier/flow/block_chain.h"

#include <algorithm>

namespace espalier::verifier {

void BlockChain::Begin(const FlowTree& tree) {
  tree_ = &tree;
  steps_.assign(1, {});
  entries_.clear();
  probabilities_.clear();
}

void BlockChain::Append(const FlowTree::Draw& draw,
                        const FlowTree::Distribution& distribution) {
  Step& last = steps_.back();
  last.distribution_begin = static_cast<int32_t>(entries_.size());
  entries_.insert(entries_.end(), distribution.entries.begin(),
                  distribution.entries.end());
  probabilities_.insert(probabilities_.end(), distribution.probability.begin(),
                        distribution.probability.end());
  last.distribution_end = static_cast<int32_t>(entries_.size());

  const auto in_law = std::lower_bound(distribution.entries.begin(),
                                       distribution.entries.end(), draw.entry);
  const double drafted =
      distribution.probability[in_law - distribution.entries.begin()];
  const double wanted = last.inclusion * tree_->target(last.node)[draw.entry];
  steps_.push_back(
      {.node = draw.child, .inclusion = std::min(1.0, wanted / drafted)});
}

void BlockChain::StopFromBelow(StopDistribution& distribution) const {
  distribution.Clear(*tree_);
  double reach = 1;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const double inclusion = step->inclusion;
    const auto inside = tree_->OfNode(distribution.inside, step->node);
    for (double& mass : inside) mass *= inclusion;
    distribution.outside[step->node] = inclusion;
    for (int32_t i = step->distribution_begin; i < step->distribution_end;
         ++i) {
      double& mass = inside[entries_[i]];
      mass = std::max(0.0, mass - probabilities_[i]);
    }
    double left = inclusion * tree_->target_outside(step->node);
    for (double mass : inside) left += mass;
    // At the end of the path no distribution is subtracted: the residual is the
    // inclusion itself. At the root all remaining probability stops.
    const bool is_root = step->node == 0;
    const double all = left + 1 - inclusion;
    const double stop = is_root ? 1 : all > 0 ? left / all : 0;
    distribution.stop[step->node] = reach * stop;
    reach -= distribution.stop[step->node];
  }
}

}  // namespace espalier::verifier
