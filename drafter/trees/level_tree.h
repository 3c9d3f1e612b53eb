#ifndef ESPALIER_DRAFTER_TREES_LEVEL_TREE_H_
#define ESPALIER_DRAFTER_TREES_LEVEL_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// A draft tree that grows level by level, so that a model runs once for all
// nodes of a level.
class LevelTree {
 public:
  virtual ~LevelTree() = default;

  // A node that may be in the final tree. Node 0 is the root.
  struct Node {
    TokenId token = 0;
    int32_t parent = kNoParent;
    int32_t depth = 0;
  };
  virtual const Node& node(int32_t index) const = 0;

  // Returns the nodes to expand next, all of one depth: the root at first.
  // Empty: the tree is done.
  virtual absl::Span<const int32_t> frontier() const = 0;

  // Adds candidate children: one list per frontier node, in frontier order.
  virtual void Expand(absl::Span<const std::vector<Candidate>> children) = 0;

  // Returns the tree so far, made of complete levels.
  virtual TokenTree Tree() const = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_TREES_LEVEL_TREE_H_
