#include "drafter/dflash/ddtree.h"

#include <algorithm>

namespace espalier::drafter {
namespace {

// Returns the depth of the tree: limited by the budget and by the first
// position without candidates.
int64_t Reach(Marginals marginals, const DraftBudget& budget) {
  const int64_t most =
      std::min(static_cast<int64_t>(marginals.size()), budget.max_depth);
  int64_t reach = 0;
  while (reach < most && !marginals[reach].empty()) ++reach;
  return reach;
}

// A path in the tree or a candidate to be next: its parent node and the index
// of its last token in its position's list.
struct Path {
  double log_prob = 0;
  int32_t parent = kNoParent;
  int32_t rank = 0;
  int32_t depth = 0;
};

// A node's next sibling and its first child are never likelier than itself, so
// the heap, which holds these two of every node, has the best path left.
class DdtreeBuilder {
 public:
  DdtreeBuilder(TokenId root, Marginals marginals, const DraftBudget& budget)
      : marginals_(marginals),
        reach_(Reach(marginals, budget)),
        max_nodes_(std::max<int64_t>(budget.max_nodes, 0)),
        tree_(TokenTree::RootOnly(root)) {
    tree_.tokens.reserve(max_nodes_ + 1);
    tree_.parents.reserve(max_nodes_ + 1);
    tree_.log_probs.reserve(max_nodes_ + 1);
    nodes_.reserve(max_nodes_ + 1);
    heap_.reserve(max_nodes_ + 2);  // a pop and two pushes a node
  }

  TokenTree Build() && {
    nodes_.push_back({});
    PushFirstChild(0);
    while (tree_.num_nodes() <= max_nodes_ && !heap_.empty()) Grow();
    return std::move(tree_);
  }

 private:
  void Grow() {
    const Path path = Pop();
    nodes_.push_back(path);
    const int32_t node =
        tree_.Add(path.parent, marginals_[path.depth - 1][path.rank].token,
                  static_cast<float>(path.log_prob));
    PushNextSibling(path);
    PushFirstChild(node);
  }

  void PushNextSibling(const Path& path) {
    if (path.rank + 1 < std::ssize(marginals_[path.depth - 1])) {
      Push(path.parent, path.rank + 1);
    }
  }

  void PushFirstChild(int32_t node) {
    if (nodes_[node].depth < reach_) Push(node, 0);
  }

  // The score is one sum down the path: rounding then never makes a path
  // likelier than its parent or than a better sibling.
  void Push(int32_t parent, int32_t rank) {
    const Path& above = nodes_[parent];
    heap_.push_back(
        {.log_prob = above.log_prob + marginals_[above.depth][rank].log_prob,
         .parent = parent,
         .rank = rank,
         .depth = above.depth + 1});
    std::push_heap(heap_.begin(), heap_.end(), Worse{*this});
  }

  Path Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Worse{*this});
    const Path path = heap_.back();
    heap_.pop_back();
    return path;
  }

  struct Worse {
    const DdtreeBuilder& builder;
    bool operator()(const Path& a, const Path& b) const {
      return a.log_prob != b.log_prob ? a.log_prob < b.log_prob
                                      : builder.RanksBefore(b, a);
    }
  };

  // Compares the ranks from the root on; only ties pay for that.
  bool RanksBefore(Path a, Path b) const {
    const int32_t a_depth = a.depth;
    const int32_t b_depth = b.depth;
    while (a.depth > b.depth) a = nodes_[a.parent];
    while (b.depth > a.depth) b = nodes_[b.parent];
    bool before = a_depth < b_depth;  // one is a prefix of the other
    for (; a.depth > 0; a = nodes_[a.parent], b = nodes_[b.parent]) {
      if (a.rank != b.rank) before = a.rank < b.rank;
      if (a.parent == b.parent) break;
    }
    return before;
  }

  const Marginals marginals_;
  const int64_t reach_;
  const int64_t max_nodes_;
  TokenTree tree_;
  std::vector<Path> nodes_;  // of the tree
  std::vector<Path> heap_;
};

}  // namespace

TokenTree BuildDdtree(TokenId root, Marginals marginals,
                      const DraftBudget& budget) {
  return DdtreeBuilder(root, marginals, budget).Build();
}

TokenTree BuildChain(TokenId root, Marginals marginals,
                     const DraftBudget& budget) {
  TokenTree tree = TokenTree::RootOnly(root);
  const int64_t length = std::min(Reach(marginals, budget), budget.max_nodes);
  double log_prob = 0;
  for (int32_t i = 0; i < length; ++i) {
    const Candidate& best = marginals[i].front();
    log_prob += best.log_prob;
    tree.Add(i, best.token, static_cast<float>(log_prob));
  }
  return tree;
}

}  // namespace espalier::drafter
