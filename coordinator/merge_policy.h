#ifndef ESPALIER_COORDINATOR_MERGE_POLICY_H_
#define ESPALIER_COORDINATOR_MERGE_POLICY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"

namespace espalier::coordinator {

// One drafter's valid tree of this round.
struct DraftedTree {
  int drafter = 0;  // index of the drafter: its bit in `provenance`
  const TokenTree* tree = nullptr;
};

// How the trees of a round become the one tree that is verified. Stateless and
// deterministic; what a policy remembers arrives as input. No policy can change
// the output text, only how much of it a pass reveals.
class MergePolicy {
 public:
  virtual ~MergePolicy() = default;

  // REQUIRES: every tree is valid and has `root` as its node 0.
  // The result is valid, has at most max_nodes nodes beside the root, each of
  // them from some tree, and carries provenance. No trees: the root alone.
  virtual TokenTree Merge(TokenId root, absl::Span<const DraftedTree> trees,
                          int64_t max_nodes) const = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_POLICY_H_
