#include "verifier/flow/block_chain.h"

#include <algorithm>

namespace espalier::verifier {

void BlockChain::Begin(const FlowTree& tree) {
  tree_ = &tree;
  steps_.assign(1, {});
  entries_.clear();
  probabilities_.clear();
}

void BlockChain::Append(const FlowTree::Attempt& attempt,
                        const FlowTree::Law& law) {
  Step& last = steps_.back();
  last.law_begin = static_cast<int32_t>(entries_.size());
  entries_.insert(entries_.end(), law.entries.begin(), law.entries.end());
  probabilities_.insert(probabilities_.end(), law.probability.begin(),
                        law.probability.end());
  last.law_end = static_cast<int32_t>(entries_.size());

  const auto in_law =
      std::lower_bound(law.entries.begin(), law.entries.end(), attempt.entry);
  const double drafted = law.probability[in_law - law.entries.begin()];
  const double wanted =
      last.inclusion * tree_->target(last.node)[attempt.entry];
  steps_.push_back(
      {.node = attempt.child, .inclusion = std::min(1.0, wanted / drafted)});
}

void BlockChain::StopFromBelow(StopLaw& law) const {
  law.Clear(*tree_);
  double reach = 1;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const double inclusion = step->inclusion;
    const auto inside = tree_->OfNode(law.inside, step->node);
    for (double& mass : inside) mass *= inclusion;
    law.outside[step->node] = inclusion;
    for (int32_t i = step->law_begin; i < step->law_end; ++i) {
      double& mass = inside[entries_[i]];
      mass = std::max(0.0, mass - probabilities_[i]);
    }
    double left = inclusion * tree_->target_outside(step->node);
    for (double mass : inside) left += mass;
    // At the end of the path no law is taken off: what is left is the
    // inclusion itself. At the root nothing is left to go to.
    const bool is_root = step->node == 0;
    const double all = left + 1 - inclusion;
    const double stop = is_root ? 1 : all > 0 ? left / all : 0;
    law.stop[step->node] = reach * stop;
    reach -= law.stop[step->node];
  }
}

}  // namespace espalier::verifier
