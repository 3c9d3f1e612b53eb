#ifndef ESPALIER_DRAFTER_HEADS_DYNAMIC_TREE_H_
#define ESPALIER_DRAFTER_HEADS_DYNAMIC_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/spec/token_tree.h"
#include "common/spec/types.h"
#include "drafter/drafter.h"
#include "drafter/foresight.h"
#include "drafter/level_tree.h"

namespace espalier::drafter {

// EAGLE-2's dynamic draft tree (arXiv 2406.16858, section 4), grown level by
// level: expand the best nodes of a level, keep every child as a candidate, and
// in the end take the best candidates of all levels. What can no longer be
// among them is not expanded, which changes nothing but the work.
//
// Scores are log-probabilities of paths, so no child beats its parent; equal
// scores go by age, parents first. So the tree is closed under parents, and
// deterministic.
class DynamicTree final : public LevelTree {
 public:
  struct Shape {
    int64_t width = 0;  // nodes of a level that are expanded at most
    // A level is not expanded if the text goes through one of its nodes with
    // less chance than this: it would cost as much as a likely one. 0 is
    // EAGLE-2 to the letter.
    double least_reach = 0;
  };
  DynamicTree(TokenId root, const DraftBudget& budget, const Shape& shape);

  struct Node : LevelTree::Node {
    double score = 0;
  };
  const Node& node(int32_t index) const override { return nodes_[index]; }

  // Best first.
  absl::Span<const int32_t> frontier() const override { return frontier_; }

  // Of each node the best child first.
  void Expand(absl::Span<const std::vector<Candidate>> children) override;

  // The best nodes so far, each behind its parent and no better than those
  // before it.
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
