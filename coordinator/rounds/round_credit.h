#ifndef ESPALIER_COORDINATOR_ROUNDS_ROUND_CREDIT_H_
#define ESPALIER_COORDINATOR_ROUNDS_ROUND_CREDIT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"
#include "coordinator/control/draft_call.h"
#include "coordinator/control/speculation_control.h"
#include "coordinator/merge/merge_policy.h"

namespace espalier::coordinator {

// The gain of each drafter's tree in a finished round, see TreeGain. Created
// before calibration learns from the round. Merges each set of trees once, all
// with the same calibration: other sessions may have changed it since the
// round's own merge, and gains are differences. Lives on the executor, during
// one call.
class RoundCredit {
 public:
  struct Round {
    const MergePolicy& policy;  // ranks_by_acceptance
    const SpeculationControl& control;
    // Merge input of the round: all trees that took part, with its root and
    // budget.
    MergeInput input;
    // Tokens emitted after the root; the last one is the bonus token.
    absl::Span<const TokenId> emitted;
  };
  explicit RoundCredit(const Round& round) : round_(round) {}

  // Gain of the input's tree at `index`.
  TreeGain Of(size_t index);
  // Gain of a tree for this round that arrived after the round went on.
  TreeGain OfLate(const DraftedTree& late);

 private:
  using TreeSet = uint64_t;  // bit i: the i-th tree of the input

  TreeSet all() const {
    const size_t count = round_.input.trees.size();
    return count == 64 ? ~TreeSet{0} : (TreeSet{1} << count) - 1;
  }
  TokenTree Merge(absl::Span<const DraftedTree> trees) const;
  const TokenTree& MergeOf(TreeSet set);
  double GainAlone(const DraftedTree& tree, const TokenTree& merged) const;

  const Round round_;
  std::map<TreeSet, TokenTree> merged_;
  std::optional<double> gain_of_all_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_ROUND_CREDIT_H_
