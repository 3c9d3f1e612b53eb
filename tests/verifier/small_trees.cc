#include "tests/verifier/small_trees.h"

#include <vector>

namespace espalier::verifier {
namespace {

struct Branch {
  TokenId token;
  int64_t below;  // which subtree of the level below hangs on it
};
using Branches = std::vector<Branch>;  // the children of a node

// Appends all multisets of at most `room` branches out of items[from ..].
void AppendMultisets(const std::vector<Branch>& items, size_t from,
                     int64_t room, Branches& chosen,
                     std::vector<Branches>& all) {
  all.push_back(chosen);
  if (room == 0) return;
  for (size_t i = from; i < items.size(); ++i) {
    chosen.push_back(items[i]);
    AppendMultisets(items, i, room - 1, chosen, all);
    chosen.pop_back();
  }
}

// levels[h]: every subtree of height at most h.
using Levels = std::vector<std::vector<Branches>>;

void Grow(const Levels& levels, int64_t height, int64_t subtree, int32_t parent,
          TokenTree& tree) {
  for (const Branch& branch : levels[height][subtree]) {
    const int32_t child = tree.Add(parent, branch.token, 0.0f);
    Grow(levels, height - 1, branch.below, child, tree);
  }
}

}  // namespace

int64_t ForEachTree(const TreeBounds& bounds,
                    const std::function<void(const TokenTree&)>& visit) {
  Levels levels = {{Branches{}}};
  for (int64_t height = 1; height <= bounds.depth; ++height) {
    std::vector<Branch> items;
    const int64_t subtrees = static_cast<int64_t>(levels.back().size());
    for (TokenId token = 0; token < bounds.vocab; ++token) {
      for (int64_t below = 0; below < subtrees; ++below) {
        items.push_back({token, below});
      }
    }
    Branches chosen;
    levels.emplace_back();
    AppendMultisets(items, 0, bounds.branching, chosen, levels.back());
  }
  const int64_t count = static_cast<int64_t>(levels.back().size());
  for (int64_t i = 0; i < count; ++i) {
    TokenTree tree = TokenTree::RootOnly(0);
    Grow(levels, bounds.depth, i, 0, tree);
    visit(tree);
  }
  return count;
}

TokenTree RandomTree(const TreeBounds& bounds, std::mt19937_64& random) {
  const auto below = [&random](int64_t n) {
    return static_cast<int32_t>(
        std::uniform_int_distribution<int64_t>(0, n - 1)(random));
  };
  TokenTree tree = TokenTree::RootOnly(below(bounds.vocab));
  std::vector<int64_t> depths = {0};
  std::vector<int64_t> num_children = {0};
  const int64_t draws = below(40);
  for (int64_t i = 0; i < draws; ++i) {
    const int32_t parent = below(tree.num_nodes());
    if (depths[parent] == bounds.depth ||
        num_children[parent] == bounds.branching) {
      continue;
    }
    tree.Add(parent, below(bounds.vocab), 0.0f);
    depths.push_back(depths[parent] + 1);
    num_children.push_back(0);
    ++num_children[parent];
  }
  return tree;
}

}  // namespace espalier::verifier
