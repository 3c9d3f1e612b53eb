#include "coordinator/rounds/round_credit.h"

#include <utility>
#include <vector>

#include "coordinator/control/accepted_length.h"

namespace espalier::coordinator {

// Beside other trees, predicted gains are too high, because a tree's nodes are
// selected where it is overrated. There the gain is measured by the accepted
// tokens. Alone, it is computed from the calibrated probabilities, which vary
// less.
TreeGain RoundCredit::Of(size_t index) {
  const DraftedTree& tree = round_.input.trees[index];
  const TreeSet self = TreeSet{1} << index;
  const double alone = GainAlone(tree, MergeOf(self));
  if (self == all()) return {.alone = alone, .beside = alone};
  const SpeculationControl& control = round_.control;
  if (!gain_of_all_) {
    gain_of_all_ = control.GainIn(round_.emitted, MergeOf(all()));
  }
  const double others = control.GainIn(round_.emitted, MergeOf(all() & ~self));
  return {.alone = alone, .beside = *gain_of_all_ - others};
}

TreeGain RoundCredit::OfLate(const DraftedTree& late) {
  const double alone = GainAlone(late, Merge({&late, 1}));
  if (round_.input.trees.empty()) return {.alone = alone, .beside = alone};
  std::vector<DraftedTree> with(round_.input.trees.begin(),
                                round_.input.trees.end());
  with.push_back(late);
  return {.alone = alone,
          .beside = round_.control.Gain(Merge(with)) -
                    round_.control.Gain(MergeOf(all()))};
}

// The probabilities of a drafter that has long been wrong are next to nothing.
// Then the first emitted token decides.
double RoundCredit::GainAlone(const DraftedTree& tree,
                              const TokenTree& merged) const {
  constexpr double kNextToNothing = 0.1;
  const double expected = round_.control.Gain(merged);
  if (expected > kNextToNothing) return expected;
  const bool accepted = AcceptedLength(*tree.tree, round_.emitted) > 0;
  return round_.control.GainOfANode(accepted);
}

const TokenTree& RoundCredit::MergeOf(TreeSet set) {
  const auto [found, is_new] = merged_.try_emplace(set);
  if (is_new) {
    std::vector<DraftedTree> trees;
    for (size_t i = 0; i < round_.input.trees.size(); ++i) {
      if (set >> i & 1) trees.push_back(round_.input.trees[i]);
    }
    found->second = Merge(trees);
  }
  return found->second;
}

TokenTree RoundCredit::Merge(absl::Span<const DraftedTree> trees) const {
  MergeInput input = round_.input;
  input.trees = trees;
  return round_.policy.Merge(input);
}

}  // namespace espalier::coordinator
