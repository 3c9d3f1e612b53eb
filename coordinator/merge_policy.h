#ifndef ESPALIER_COORDINATOR_MERGE_POLICY_H_
#define ESPALIER_COORDINATOR_MERGE_POLICY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"

namespace espalier::coordinator {

class SessionCalibration;

// One drafter's valid tree of this round.
struct DraftedTree {
  int drafter = 0;  // index of the drafter: its bit in `provenance`
  const TokenTree* tree = nullptr;
  int peer = 0;  // the drafter among all of the coordinator: see Calibration
  double weight = 1;  // of its tokens, see DrafterDuty
  // Whether it drafts by what it says, and without the verifier's choices in
  // mind: see DrafterPeer.
  bool trusted = false;
};

struct MergeInput {
  TokenId root = 0;
  // Each is valid and has `root` as its node 0.
  absl::Span<const DraftedTree> trees;
  int64_t max_nodes = 0;  // of the result, root excluded
  // What the drafters' words have been worth so far.
  const SessionCalibration* calibration = nullptr;
};

// How the trees of a round become the one tree that is verified. Stateless and
// deterministic; what a policy remembers arrives as input. No policy can change
// the output text, only how much of it a pass reveals.
class MergePolicy {
 public:
  virtual ~MergePolicy() = default;

  // The result is valid, has at most max_nodes nodes beside the root, each of
  // them from some tree, and carries provenance. No trees: the root alone.
  virtual TokenTree Merge(const MergeInput& input) const = 0;

  // Whether the result's nodes come best first and its log_probs are the
  // calibrated chances of being emitted, so that a tree may be cut where
  // another node does not pay (see node_budget.h).
  virtual bool foresees() const { return false; }

  // Whether trees of several drafters keep their laws as long as all of them
  // fit. For a rule that reads laws each drafter is then asked for its share of
  // the nodes, so that they do.
  virtual bool keeps_laws() const { return false; }
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_POLICY_H_
