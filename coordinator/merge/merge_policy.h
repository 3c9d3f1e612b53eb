#ifndef ESPALIER_COORDINATOR_MERGE_MERGE_POLICY_H_
#define ESPALIER_COORDINATOR_MERGE_MERGE_POLICY_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/speculation/token_tree.h"

namespace espalier::coordinator {

class SessionCalibration;

// One drafter's valid tree of this round.
struct DraftedTree {
  int drafter = 0;  // index of the drafter: its bit in `provenance`
  const TokenTree* tree = nullptr;
  int peer = 0;       // index among all of the coordinator's drafters
  double weight = 1;  // of its tokens, see DrafterSettings
  // Is true if the distributions that the tree claims are used, see
  // DrafterPeer.
  bool trusted = false;
  // Time from the round's first request until the tree came; zero: it was there
  // before.
  absl::Duration arrived = {};
  bool whole = true;  // false: a partial tree; a better one may follow
};

struct MergeInput {
  TokenId root = 0;
  // Each is valid and has `root` as its node 0.
  absl::Span<const DraftedTree> trees;
  int64_t max_nodes = 0;  // of the result, root excluded
  // Corrects the drafters' probabilities.
  const SessionCalibration* calibration = nullptr;
};

// Turns the trees of a round into the one tree that is verified. Stateless and
// deterministic; anything that a policy should remember arrives as input. A
// policy cannot change the output text, only how much of it a pass reveals.
class MergePolicy {
 public:
  virtual ~MergePolicy() = default;

  // The result is valid, has at most max_nodes nodes besides the root, each of
  // them from some tree, and carries provenance. Without trees it is the root
  // alone.
  virtual TokenTree Merge(const MergeInput& input) const = 0;

  // Returns true if these trees are enough, so that the round need not wait for
  // the drafters that still owe one. Called when a tree has come and others are
  // awaited. Trees that come after that are not used in this round.
  virtual bool HasEnough(const MergeInput& /*input*/) const { return false; }

  // Returns true if the result's nodes come best first and its log_probs are
  // calibrated probabilities of being emitted, so that the tree can be cut
  // after the nodes that pay (see control/paying_nodes.h).
  virtual bool ranks_by_acceptance() const { return false; }

  // Returns true if the merged tree keeps the draft distributions of several
  // drafters if all of their nodes fit. If the rule reads draft distributions,
  // each drafter is then asked for its share of the nodes, so that they do fit.
  virtual bool keeps_distributions() const { return false; }
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_MERGE_POLICY_H_
