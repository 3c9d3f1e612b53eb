#ifndef ESPALIER_DRAFTER_HEADS_DYNAMIC_TREE_H_
#define ESPALIER_DRAFTER_HEADS_DYNAMIC_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"
#include "drafter/engine/drafter.h"
#include "drafter/trees/gumbel_coupling.h"
#include "drafter/trees/level_tree.h"

namespace espalier::drafter {

// EAGLE-2's dynamic draft tree (arXiv 2406.16858, section 4), grown level by
// level: expand the best nodes of a level, keep every child as a candidate, and
// finally take the best candidates of all levels. Nodes whose children cannot
// be among these are not expanded, which saves work and changes nothing else.
//
// Scores are log-probabilities of paths, so no child beats its parent; ties go
// to the older node, so parents come first. So the tree is closed under
// parents, and deterministic.
class DynamicTree final : public LevelTree {
 public:
  struct Shape {
    int64_t width = 0;  // most nodes expanded per level
    // A level is expanded only if the chance that the text passes through one
    // of its nodes is at least this: an unlikely level costs as much as a
    // likely one. 0: exactly EAGLE-2.
    double least_reach = 0;
  };
  DynamicTree(TokenId root, const DraftBudget& budget, const Shape& shape);

  struct Node : LevelTree::Node {
    double score = 0;
  };
  const Node& node(int32_t index) const override { return nodes_[index]; }

  // Best first.
  absl::Span<const int32_t> frontier() const override { return frontier_; }

  // REQUIRES: each list has its best child first.
  void Expand(absl::Span<const std::vector<Candidate>> children) override;

  // Returns the best nodes so far, each after its parent, in order of falling
  // score.
  TokenTree Tree() const override;

 private:
  // Indices by score, then by age.
  std::vector<int32_t> Ranked(int32_t first) const;
  double Reach() const;  // of the frontier

  const DraftBudget budget_;
  const Shape shape_;
  std::vector<Node> nodes_;
  std::vector<int32_t> frontier_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_DYNAMIC_TREE_H_
